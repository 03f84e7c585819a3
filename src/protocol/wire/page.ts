import { Type } from '@sinclair/typebox'
import { nullable } from './shapes.ts'

/** What a page of a list says of its place among all pages (§32). */
export const pageFields = {
  next_cursor: nullable(
    Type.String({ description: 'For the next page, however many rows this one has; null: this is the last one' }),
  ),
  truncated: Type.Boolean({ description: 'There is more than this page shows' }),
}
