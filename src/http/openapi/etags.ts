import { etagsCharactersMax } from '../../protocol/wire/shapes.ts'
import { type JsonObject, ref } from './schema.ts'

const header = (name: string, description: string) => ({
  name,
  in: 'header',
  required: false,
  schema: { type: 'string', maxLength: etagsCharactersMax },
  description,
})

const match = header(
  'if-match',
  'The ETag of the row as you have read it: the change is refused (412) where somebody has changed the row since. Without it, the fields that you send are written.',
)
const none = header('if-none-match', 'Only `*`: the change is refused (412) where the entry is there already.')

/** Headers of a request that changes a row. */
export const preconditionParameters = (etag: unknown, method: string): readonly JsonObject[] =>
  etag === undefined || method === 'get' ? [] : [match, ...(etag === 'row or none' ? [none] : [])]

const tag = {
  ETag: { schema: { type: 'string' }, description: 'For `If-Match`. It names what can be edited of the row.' },
}

/** Answers with a row name it. */
export const withEtag = (answer: JsonObject, etag: unknown): JsonObject =>
  etag === undefined || answer.content === undefined ? answer : { ...answer, headers: tag }

/** The answer for a change that was not made. */
export const refusedPrecondition = (etag: unknown, method: string): JsonObject =>
  etag === undefined || method === 'get'
    ? {}
    : {
        412: {
          description: 'Somebody has changed the row since it was read (`precondition_failed`). Nothing was changed.',
          content: { 'application/problem+json': { schema: ref('Problem') } },
        },
      }
