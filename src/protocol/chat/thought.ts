import type { Json } from '../json/json-object.ts'

/** A node's reasoning in a message or a chunk; servers use different names for the field. */
export function thoughtOf({ reasoning_content: long, reasoning: short }: Json): string {
  const thought = long ?? short
  return typeof thought === 'string' ? thought : ''
}
