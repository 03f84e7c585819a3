import type { Problem } from '../../errors.ts'
import { namesOf } from '../dialects/fields.ts'
import { cutMembers } from '../json/json-members.ts'
import { jsonString } from '../json/json-text.ts'
import { withoutHints } from './cache-hints.ts'
import { type Fitted, fitted } from './fit-messages.ts'

export const chatPath = '/v1/chat/completions'

/** Fields that no node gets, because nodes may belong to third parties (data minimisation, §5). */
export const upstreamStripped: ReadonlySet<string> = new Set([
  ...namesOf('chat', 'dropped'),
  ...namesOf('chat', 'hint'),
])

/** Longer bodies stay in pieces. Joining a short one costs less than passing its pieces on. */
const joinedMax = 16 * 1024

/** The fields of an outgoing request that are read. */
interface OutgoingRequest extends Fitted {
  readonly model: string
  readonly stream?: boolean | null
  readonly stream_options?: object | null
}

/** A client's form, which comes while it is sent. */
export interface UpstreamForm {
  readonly contentType: string
  /** Why the rest of it will not come; null: nothing is wrong. */
  readonly fault: Problem | null
  /** Part of it went to a node and is kept nowhere: no other node can get it. */
  readonly spent: boolean
  /** Its bytes for one node. `length`: null if not known in advance; `next`: null at the end. */
  open(upstreamModelId: string): { readonly length: number | null; next(): Promise<Uint8Array | null> }
}

/** The body for a node without `model`, which differs from route to route. */
export interface UpstreamBody {
  /** Where the node takes it. */
  readonly path: string
  /** True if the node is asked for a stream. */
  readonly stream: boolean
  /** In the place of a text. */
  readonly form?: UpstreamForm
  /** One text, or its pieces in order. `members`: of this model alone, in the place of those that the body has; undefined removes one. */
  forModel(upstreamModelId: string, members?: Members | null): string | readonly string[]
}

type Members = Readonly<Record<string, unknown>>

/** Replaces members in a request for a whole answer, so that the node sends a stream. */
export const streamMembers = { stream: true, stream_options: { include_usage: true } } as const

interface Bounded {
  readonly max_tokens?: number | null
  readonly max_completion_tokens?: number | null
}

/**
 * Names the bound of an answer as servers do that know one name alone: they pass over the other one, and the answer is not
 * bounded. null: the request has that name already, or asks for no bound.
 */
export const renamedBound = ({ max_tokens: most, max_completion_tokens: alias }: Bounded): Members | null =>
  most != null || alias == null ? null : { max_tokens: alias, max_completion_tokens: undefined }

/** The members that the gateway itself sets, and therefore removes from the client's body. */
function ownMembers(body: OutgoingRequest, ceiling: number | null): Readonly<Record<string, unknown>> | null {
  if (body.stream !== true && ceiling === null && body[fitted] === undefined) return null
  return {
    ...(body[fitted] === true ? { messages: (body as { readonly messages?: unknown }).messages } : {}),
    // vLLM and llama.cpp send usage only when asked (§6).
    ...(body.stream === true ? { stream_options: { ...body.stream_options, include_usage: true } } : {}),
    ...(ceiling === null ? {} : { max_tokens: ceiling }),
  }
}

/**
 * `text`: the client's body, of which `body` is the parsed form. `ceiling`: `max_tokens` to inject where the request
 * has none, so that what a quota reserved is a true bound. Every other member passes byte for byte: numbers keep their
 * digits, and a long prompt is not encoded again (200 µs for 100 kB, measured; the cut costs a fifth). `changed`:
 * further members that replace the client's; undefined removes one.
 */
export function upstreamBody(
  text: string,
  body: OutgoingRequest,
  ceiling: number | null,
  changed: Members | null = null,
  path = chatPath,
): UpstreamBody {
  const asked = ownMembers(body, ceiling)
  const set = changed === null ? asked : { ...asked, ...changed }
  const hintless = withoutHints(text, changed === null ? body : { ...body, ...changed })
  const own = hintless === null ? set : { ...set, ...hintless }
  const dropped = (key: string) =>
    key === 'model' || upstreamStripped.has(key) || (own !== null && Object.hasOwn(own, key))
  const pieces = cutMembers(text, body, dropped) ?? membersOf(body, dropped)
  const stream = (own !== null && Object.hasOwn(own, 'stream') ? own.stream : body.stream) === true
  const written = own === null ? '' : JSON.stringify(own).slice(1, -1)
  const added = written === '' ? '' : `,${written}`
  return new CutBody(path, stream, added, pieces, text, body, ceiling, changed)
}

/** The client's body without the removed members, and with ours in their place. */
class CutBody implements UpstreamBody {
  constructor(
    readonly path: string,
    readonly stream: boolean,
    /** Our members, each with a comma before it. */
    private readonly added: string,
    private readonly pieces: readonly string[],
    private readonly text: string,
    private readonly body: OutgoingRequest,
    private readonly ceiling: number | null,
    private readonly changed: Members | null,
  ) {}

  forModel(upstreamModelId: string, members: Members | null = null): string | readonly string[] {
    const { pieces, text, body, ceiling, changed, path } = this
    // Cut once more: few models have members of their own.
    if (members !== null)
      return upstreamBody(text, body, ceiling, { ...changed, ...members }, path).forModel(upstreamModelId)
    const head = `{"model":${jsonString(upstreamModelId)}${this.added}`
    if (text.length > joinedMax) return [head, ...pieces.flatMap((piece) => [',', piece]), '}']
    return pieces.length === 0 ? `${head}}` : `${head},${pieces.join(',')}}`
  }
}

function membersOf(body: OutgoingRequest, dropped: (key: string) => boolean): readonly string[] {
  const kept = Object.entries(body).filter(([key, value]) => value !== undefined && !dropped(key))
  return kept.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`)
}
