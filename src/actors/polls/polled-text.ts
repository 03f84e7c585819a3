import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { AgentFacts, PollResult, RuntimeReport } from '../../polling/node-watch.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import {
  cacheTokensMax,
  deviceMemory,
  modelServerStates,
  modelsPerRuntimeMax,
  TransportKey,
  transportKeysMax,
} from '../../protocol/wire/nodes/agent.ts'
import { Hardware } from '../../protocol/wire/nodes/hardware.ts'
import { ModelFile, ModelMemory } from '../../protocol/wire/nodes/model-facts.ts'
import { runtimeKinds } from '../../protocol/wire/nodes/node.ts'
import { NodePower } from '../../protocol/wire/nodes/power.ts'
import { SealedKey, sealedKeysMax } from '../../protocol/wire/nodes/sealed-key.ts'
import { Modality } from '../../protocol/wire/nodes/served-work.ts'
import { count, literals, modelId, nullable, nullableInteger, strict } from '../../protocol/wire/shapes.ts'
import type { RuntimeModel, RuntimeStatus } from '../../runtimes/runtime.ts'

/** Of one node; a longer result stays where it was polled, characters. */
export const polledTextMax = 1024 * 1024
/** The runtimes of an agent, or the ranks of a server: far more than there are. */
const reportsMax = 256
const nameMax = 4_096
const name = Type.String({ maxLength: nameMax })
const cacheTokens = Type.Integer({ minimum: 0, maximum: cacheTokensMax })
const megabytes = Type.Integer({ minimum: 0 })

/**
 * A model as `RuntimeModel` has it. Both ends are this program, so the members are the program's own; a process of another
 * version that has further ones is not understood, and polls by itself.
 */
const PolledModel = Type.Object(
  {
    id: modelId,
    contextLength: nullableInteger,
    ready: Type.Boolean(),
    loaded: nullable(Type.Boolean()),
    cacheTokens: Type.Optional(nullable(cacheTokens)),
    cacheHeld: Type.Optional(Type.Object({ tokens: cacheTokens, full: Type.Boolean() }, strict)),
    loadingSinceMs: Type.Optional(nullable(Type.Number())),
    dozing: Type.Optional(Type.Boolean()),
    memoryMb: Type.Optional(megabytes),
    deviceMb: Type.Optional(deviceMemory('')),
    group: Type.Optional(name),
    pinned: Type.Optional(Type.Literal(true)),
    residentMb: Type.Optional(megabytes),
    file: Type.Optional(ModelFile),
    memory: Type.Optional(ModelMemory),
    adapts: Type.Optional(name),
    /** Names with their values; a name alone: a request has no such member. JSON has no word for that. */
    askedWith: Type.Optional(Type.Array(Type.Array(Type.Unknown(), { minItems: 1, maxItems: 2 }))),
    evicts: Type.Optional(Type.Boolean()),
    serverState: Type.Optional(literals(modelServerStates)),
    modality: Type.Optional(Modality),
    workGuessed: Type.Optional(Type.Literal(true)),
    ranking: Type.Optional(
      Type.Object({ scoreKind: literals(['probability', 'logit']), documentsMax: nullableInteger }, strict),
    ),
  },
  strict,
)

const PolledStatus = Type.Object(
  {
    kind: literals(runtimeKinds),
    state: literals(['ready', 'loading', 'down']),
    models: Type.Array(PolledModel, { maxItems: modelsPerRuntimeMax }),
    slotsTotal: nullableInteger,
    slotsFree: nullableInteger,
    queueDepth: nullable(count),
    running: Type.Optional(count),
    rank: Type.Optional(count),
    startMark: Type.Optional(name),
    budgetsMb: Type.Optional(deviceMemory('')),
  },
  strict,
)

const PolledAgent = Type.Object(
  {
    transportKeys: Type.Array(TransportKey, { maxItems: transportKeysMax }),
    sealedKeys: Type.Array(SealedKey, { maxItems: sealedKeysMax }),
    hardware: nullable(Hardware),
  },
  strict,
)

const failures = [
  'refused',
  'closed',
  'dns',
  'tls',
  'timeout',
  'aborted',
  'malformed',
  'too_large',
  'unknown_runtime',
  'unauthorized',
  'signature_invalid',
] as const

const Polled = Type.Union([
  Type.Object({ kind: Type.Literal('failed'), code: literals(failures) }, strict),
  Type.Object(
    {
      kind: Type.Literal('answered'),
      reports: Type.Array(Type.Object({ label: name, status: PolledStatus }, strict), { maxItems: reportsMax }),
      power: Type.Optional(NodePower),
      agent: Type.Optional(PolledAgent),
    },
    strict,
  ),
])
type Polled = Static<typeof Polled>
type PolledModel = Static<typeof PolledModel>

/** Each member of the program's own has its place above: this does not compile where one lacks it. */
type Lacking<Own, Sent extends TSchema> = Exclude<keyof Own, keyof Static<Sent>>
type NothingLacks<Missing extends never> = Missing
export type Complete = NothingLacks<
  | Lacking<RuntimeModel, typeof PolledModel>
  | Exclude<Lacking<RuntimeStatus, typeof PolledStatus>, 'ranks'>
  | Lacking<AgentFacts, typeof PolledAgent>
  | Exclude<Extract<PollResult, { kind: 'failed' }>['code'], (typeof failures)[number] | 'exhausted'>
>

const check = TypeCompiler.Compile(Polled)

const sentModel = ({ askedWith, ...model }: RuntimeModel) => ({
  ...model,
  ...(askedWith === undefined
    ? {}
    : { askedWith: Object.entries(askedWith).map((pair) => (pair[1] === undefined ? [pair[0]] : pair)) }),
})

const sentReport = ({ label, status: { ranks: _, models, ...status } }: RuntimeReport) => ({
  label,
  status: { ...status, models: models.map(sentModel) },
})

/** The result of a poll as a text for other processes; null: it is longer than `polledTextMax`, or says something of this process alone. */
export function polledText(result: PollResult): string | null {
  if (result.kind === 'failed') return result.code === 'exhausted' ? null : JSON.stringify(result)
  const text = JSON.stringify({ ...result, reports: result.reports.map(sentReport) })
  return text.length > polledTextMax ? null : text
}

function modelIn({ askedWith, ...model }: PolledModel): RuntimeModel {
  if (askedWith === undefined) return model
  return { ...model, askedWith: Object.fromEntries(askedWith.map(([member, value]) => [String(member), value])) }
}

/** null: not the result of a poll. The texts in it are the node's, so its shape is checked as that of a node's own answer is. */
export function readPolled(text: string): PollResult | null {
  const value = foreignJson(text) as Polled | undefined
  if (!check.Check(value)) return null
  if (value.kind === 'failed') return value
  const reports = value.reports.map(({ label, status }) => ({
    label,
    status: { ...status, models: status.models.map(modelIn) },
  }))
  return { ...value, reports }
}
