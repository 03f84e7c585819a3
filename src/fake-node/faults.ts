import { type Static, Type as t } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

const ms = t.Integer({ minimum: 0, maximum: 3_600_000 })
const chunksBefore = t.Optional(t.Integer({ minimum: 0, maximum: 1_000_000 }))

/** What a fault is limited to. `times`: the next N chat requests it touches. `match`: requests for this model only. */
const limits = {
  times: t.Optional(t.Integer({ minimum: 1, maximum: 1_000_000 })),
  match: t.Optional(t.String({ maxLength: 128 })),
  /** Which requests suffer; without it only chat does (`unhealthyOnly` and `flapping`: only probes). */
  scope: t.Optional(t.Union([t.Literal('chat'), t.Literal('probe'), t.Literal('all')])),
}

function fault<K extends string, P extends Parameters<typeof t.Object>[0]>(kind: K, parameters: P) {
  return t.Object({ kind: t.Literal(kind), ...parameters, ...limits }, { additionalProperties: false })
}

export const Fault = t.Union([
  /** The port is closed: connections are refused. Open ones are reset unless `keepOpen`. Opens again after `ms`. */
  fault('refuse', { ms: t.Optional(ms), keepOpen: t.Optional(t.Boolean()) }),
  fault('status500', { status: t.Optional(t.Integer({ minimum: 500, maximum: 599 })) }),
  fault('status429', { retryAfterS: t.Optional(t.Integer({ minimum: 0, maximum: 3600 })) }),
  fault('status400', {}),
  /** Silence for this long, then a normal answer. */
  fault('slowHeaders', { ms }),
  /** Status and headers at once, the first chunk after this time. */
  fault('slowFirstToken', { ms }),
  /** Silence for this long, then HTTP 500, an error event under HTTP 200, or a reset. */
  fault('failAfter', {
    ms,
    as: t.Optional(t.Union([t.Literal('status'), t.Literal('errorEvent'), t.Literal('reset')])),
  }),
  fault('hang', {}),
  /** So many chunks, then silence on an open connection. */
  fault('stall', { afterChunks: chunksBefore }),
  fault('dropMidStream', {
    afterChunks: chunksBefore,
    how: t.Optional(t.Union([t.Literal('reset'), t.Literal('fin')])),
  }),
  fault('endWithoutFinish', { afterChunks: chunksBefore }),
  fault('malformedLine', { afterChunks: chunksBefore }),
  fault('errorEvent', {
    afterChunks: chunksBefore,
    /** `{"error":{…}}`, `{"object":"error",…}`, an `error: {…}` line, `event: error` (§6). */
    shape: t.Optional(t.Union([t.Literal('error'), t.Literal('object'), t.Literal('line'), t.Literal('named')])),
  }),
  fault('jsonErrorBody', {}),
  fault('noUsage', {}),
  fault('usageLate', { ms }),
  fault('usageTwice', {}),
  fault('gzip', {}),
  fault('hugeChunk', { bytes: t.Integer({ minimum: 1, maximum: 64 * 1024 * 1024 }) }),
  fault('unhealthyOnly', { status: t.Optional(t.Integer({ minimum: 400, maximum: 599 })) }),
  /** Unhealthy for the first `periodMs`, healthy for the next, and so on. */
  fault('flapping', { periodMs: t.Integer({ minimum: 1, maximum: 3_600_000 }) }),
  /** `/slots` says that none is free. Chat is answered all the same: such servers queue. */
  fault('slotsFull', {}),
])
export type Fault = Static<typeof Fault>
export type FaultKind = Fault['kind']

export type FaultOf<K extends FaultKind> = Extract<Fault, { kind: K }>

const faultsMax = 32

/** One fault or a list of them; null when it is neither. */
export function parseFaults(body: unknown): readonly Fault[] | null {
  const list = Array.isArray(body) ? body : [body]
  if (list.length > faultsMax) return null
  return list.every((entry) => Value.Check(Fault, entry)) ? (list as Fault[]) : null
}

/** The faults one request suffers, by kind. */
export interface Suffered {
  get<K extends FaultKind>(kind: K): FaultOf<K> | undefined
}

export interface FaultSet {
  readonly list: readonly Fault[]
  replace(faults: readonly Fault[]): void
  /** Takes one of `times` from every fault that touches this request. */
  suffer(scope: 'chat' | 'probe', model: string | null): Suffered
}

export function createFaultSet(): FaultSet {
  let active: { readonly fault: Fault; left: number }[] = []
  let sinceMs = 0
  return {
    get list() {
      return active.filter((entry) => entry.left > 0).map((entry) => entry.fault)
    },
    replace(faults) {
      sinceMs = performance.now()
      active = faults.map((entry) => ({ fault: entry, left: entry.times ?? Number.POSITIVE_INFINITY }))
    },
    suffer(scope, model) {
      const found = new Map<FaultKind, Fault>()
      for (const entry of active) {
        if (entry.left <= 0 || !touches(entry.fault, scope, model)) continue
        entry.left -= 1
        if (entry.fault.kind === 'flapping' && !isDown(entry.fault, sinceMs)) continue
        found.set(entry.fault.kind, entry.fault)
      }
      return { get: <K extends FaultKind>(kind: K) => found.get(kind) as FaultOf<K> | undefined }
    },
  }
}

const probeFaults: readonly FaultKind[] = ['unhealthyOnly', 'flapping', 'slotsFull']

function touches(entry: Fault, scope: 'chat' | 'probe', model: string | null): boolean {
  if (entry.match !== undefined && model !== null && entry.match !== model) return false
  const own = entry.scope ?? (probeFaults.includes(entry.kind) ? 'probe' : 'chat')
  return own === 'all' || own === scope
}

function isDown(entry: FaultOf<'flapping'>, sinceMs: number): boolean {
  return Math.floor((performance.now() - sinceMs) / entry.periodMs) % 2 === 0
}
