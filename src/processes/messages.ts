import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { foreignJson } from '../protocol/json/foreign-json.ts'

/**
 * What a supervisor and its processes tell each other, a JSON line each: down on standard input, up on standard output.
 * After an upgrade a new process may serve under an older supervisor, so unknown fields are no fault.
 */
const Names = Type.Array(Type.String())

/** The first line down. Secrets travel here and stand in no argument and no environment. */
export const Assignment = Type.Object({
  index: Type.Integer(),
  /** 0: any free one, which the answer names. */
  port: Type.Integer(),
  /** Its port for other gateways, counted from that of `SVC_PEER_URL`; absent: its index, under an earlier supervisor. */
  peer_port: Type.Optional(Type.Integer()),
  database_url: Type.String(),
  peppers: Names,
  secrets_keys: Names,
  audit_keys: Names,
  router_keys: Names,
  webhook_keys: Names,
  log_keys: Names,
  /** null: with `DATABASE_URL`. */
  data_folder: Type.Union([Type.String(), Type.Null()]),
  role_tokens_in_database: Type.Boolean(),
  cluster_secret: Type.String(),
  socket_folder: Type.String(),
  leads: Type.Boolean(),
})
export type Assignment = Static<typeof Assignment>

/**
 * `drain`: all of them end soon; `leave`: end while other processes go on; `stop`: end as the last. The end of standard input
 * is a `stop`.
 */
export const Order = Type.Object({
  order: Type.Union(['lead', 'follow', 'drain', 'leave', 'stop'].map((word) => Type.Literal(word))),
})
export type Order = 'lead' | 'follow' | 'drain' | 'leave' | 'stop'

/**
 * The lines up. First: it serves, or why it could not start, for the operator's eyes. `closed`: it takes no more connections, and
 * ends when what runs has ended.
 */
export const Report = Type.Union([
  Type.Object({ port: Type.Integer(), base_url: Type.String(), models: Names }),
  Type.Object({ failed: Type.String() }),
  Type.Object({ closed: Type.Literal(true) }),
])
export type Report = Static<typeof Report>

export const line = (message: Assignment | Report | { readonly order: Order }): string => `${JSON.stringify(message)}\n`

/** null: it is not one. */
export function readLine<T extends TSchema>(schema: T, text: string): Static<T> | null {
  const value = foreignJson(text)
  return Value.Check(schema, value) ? value : null
}

/** Of a line without an end. */
const charactersMax = 1024 * 1024

/**
 * Whole lines of a stream with their ends, as many at once as have come, so that they are passed on in one write. What
 * follows the last line end is a line, too.
 */
export async function* wholeLinesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of stream) {
    const text = rest + decoder.decode(bytes, { stream: true })
    const end = text.lastIndexOf('\n') + 1
    rest = text.slice(end)
    if (end > 0) yield text.slice(0, end)
    if (rest.length > charactersMax) throw new Error('a line without an end')
  }
  if (rest !== '') yield `${rest}\n`
}

/** The same one by one, without their ends. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  for await (const text of wholeLinesOf(stream)) yield* text.slice(0, -1).split('\n')
}
