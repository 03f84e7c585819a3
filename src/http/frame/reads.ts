import { type TSchema, Type } from '@sinclair/typebox'
import { brand } from '../../brand.ts'
import { readBody } from '../../protocol/json/json-body.ts'
import type { QueryParameters } from '../../protocol/wire/query.ts'
import type { HttpContext } from './context.ts'
import { queryKey } from './query.ts'

/** Also a key of a route's `detail`, where the route reads its body by itself. */
export const bodyKey = `x-${brand}-body`

export interface DescribedBody {
  readonly schema: TSchema
  readonly required: boolean
  /** Absent: JSON. */
  readonly mediaType?: string
}

interface Sent {
  readonly request: Request
  body: unknown
}

/**
 * Options of a route whose body Elysia must neither parse nor check, since it would not check what was sent (see
 * docs/decisions/0013). `read` runs after the caller is known and the path is checked; its result is the handler's
 * `body`. The OpenAPI document contains the schema.
 */
export function readsBy<C extends object, B>(schema: TSchema, read: (context: C) => Promise<B>, required = true) {
  return {
    parse: 'none' as const,
    body: Type.Unsafe<B>({ ...Type.Any(), [bodyKey]: { schema, required } satisfies DescribedBody }),
    beforeHandle: async (context: C & Sent): Promise<void> => {
      context.body = await read(context)
    },
  }
}

/** A route that is no action: the handler's `body` is what was sent, at most `bytesMax` bytes of it. */
export const readsPlainly = <S extends TSchema>({ connections }: HttpContext, schema: S, bytesMax?: number) =>
  readsBy(schema, ({ request }: { readonly request: Request }) =>
    connections.body(request, readBody(request, schema, bytesMax)),
  )

/** Members of a route's `detail` that document what its handler reads by itself. */
export const documented = (
  body: TSchema,
  query: QueryParameters,
  mediaType = 'application/json',
): Record<string, unknown> => ({
  [bodyKey]: { schema: body, required: true, mediaType } satisfies DescribedBody,
  [queryKey]: query,
})

/** A mounted route's description of its body; null if it reads none. */
export function describedBody(hooks: { readonly body?: unknown; readonly detail?: unknown }): DescribedBody | null {
  const { [bodyKey]: described } = (hooks.body ?? hooks.detail ?? {}) as Readonly<
    Record<string, DescribedBody | undefined>
  >
  return described ?? null
}
