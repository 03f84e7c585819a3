import type { Options } from 'minisearch'

/** A section of a document, as the search knows it. */
export interface Searched {
  /** The section's address. */
  readonly id: string
  readonly page: string
  readonly heading: string
  readonly text: string
  /** The beginning of the text. */
  readonly lead: string
}

/** The same for who makes the index and who reads it. */
export const searchOptions: Options<Searched> = {
  fields: ['page', 'heading', 'text'],
  storeFields: ['page', 'heading', 'lead'],
  searchOptions: { boost: { heading: 3, page: 2 }, prefix: true, fuzzy: 0.15, combineWith: 'AND' },
}
