export const joinWordsCount = 6

/** The words of a join as people type them: in any case, with any spaces, hyphens or commas between. */
export const plainWords = (typed: string): string =>
  typed
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter((word) => word !== '')
    .join(' ')
