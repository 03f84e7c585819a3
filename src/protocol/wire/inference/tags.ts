/** A client's labels for a request, for its own counts: their greatest number and length in characters. */
export const tagsMax = 8
export const tagCharactersMax = 64
/** Of a text with tags and commas, UTF-16 units; a longer one is not looked through. */
export const tagsTextMax = 1_024
export const tagPattern = /^[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,63}$/
export const tagWords = `1 to ${tagCharactersMax} letters, digits or . _ : / @ + = -, beginning with a letter or digit`
/** Between two of them, where they stand in one text: none has it. */
export const tagSeparator = ','

/** As they stand in a record; null: none. */
export const tagsOf = (kept: string | null): readonly string[] => (kept === null ? [] : kept.split(tagSeparator))
