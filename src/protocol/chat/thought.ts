import type { Json } from '../json/json-object.ts'

/** What a node calls its thoughts in a message or a chunk, by server. */
export function thoughtOf({ reasoning_content: long, reasoning: short }: Json): string {
  const thought = long ?? short
  return typeof thought === 'string' ? thought : ''
}
