import type { Json } from '../protocol/json/json-object.ts'
import type { ChatRequest } from '../protocol/wire/inference/chat.ts'
import type { ModelServerState } from '../protocol/wire/nodes/agent.ts'
import type { Modality } from '../protocol/wire/nodes/kinds-of-work.ts'
import type { ModelFile, ModelMemory } from '../protocol/wire/nodes/model-facts.ts'
import type { RuntimeKind } from '../protocol/wire/nodes/node.ts'
import type { RankingTraits, RerankDialect } from './ranking.ts'
import type { Tokenizer } from './tokens/tokenizer.ts'

/**
 * How a runtime module reaches its server: a GET over the node's transport, narrowed. `path` starts with `/`. The caller
 * bounds the time and the size of an answer; `text` rejects for one that is longer.
 */
export type ProbeFetch = (path: string) => Promise<ProbeAnswer>

export interface ProbeAnswer {
  readonly status: number
  readonly headers: { get(name: string): string | null }
  text(): Promise<string>
}

/** Of one model. */
export interface CacheHeld {
  readonly tokens: number
  /** What comes takes the place of what is there. */
  readonly full: boolean
}

export interface RuntimeModel {
  /** The model's name in requests to this server; matches `modelIdPattern`. */
  readonly id: string
  /** Tokens; null where the server does not say. */
  readonly contextLength: number | null
  /** The model can answer now, perhaps after the server has loaded it (§8, readiness). */
  readonly ready: boolean
  /** True if the model is already in memory. null if the server does not say. */
  readonly loaded: boolean | null
  /**
   * Tokens of prompts that its server's cache holds; null: the server does not report it. Absent: the gateway did not
   * ask.
   */
  readonly cacheTokens?: number | null
  /** What is in its server's cache now, by the server's events. Absent: not listened to, or some were lost. */
  readonly cacheHeld?: CacheHeld
  /** Unix ms since when it is being loaded. Absent or null: it is not, or the server does not say. */
  readonly loadingSinceMs?: number | null
  /** Its server has let it go without ending, and gives it back on command: sooner than a load. Set where the server offers that. */
  readonly dozing?: boolean
  /** The memory it needs on its computer, if a file of the owner says so. */
  readonly memoryMb?: number
  /** The same by device, in the words of that file. */
  readonly deviceMb?: Readonly<Record<string, number>>
  /** Of one group only one is in memory at a time. Absent: it is in none. */
  readonly group?: string
  /** Its owner wants it in memory always. */
  readonly pinned?: true
  /** What its processes were measured to have in memory. Absent: not running, or not measurable. */
  readonly residentMb?: number
  /** Absent: its server says nothing of its files. */
  readonly file?: ModelFile
  /** Measured by its server. Absent: it is not in memory, or the server does not say. */
  readonly memory?: ModelMemory
  /** It is a LoRA adapter over this model of the same server, with which it shares memory and cache. Absent: no adapter. */
  readonly adapts?: string
  /** Members that a request for it has at its server, in the place of the client's. Absent: its name is enough. */
  readonly askedWith?: Readonly<Record<string, unknown>>
  /** To load it, another model would have to leave memory. Absent: the server does not say. */
  readonly evicts?: boolean
  /** Of an agent's own model server. */
  readonly serverState?: ModelServerState
  /** Absent: chat. */
  readonly modality?: Modality
  /** Its server does not say what it does: `modality`, or its absence, comes from the model's name. */
  readonly workGuessed?: true
  /** How a model that ranks does so. */
  readonly ranking?: RankingTraits
}

/** What a server says of one of its data-parallel ranks; null: not now. */
export interface RankLoad {
  readonly running: number | null
  readonly queueDepth: number | null
  /** Tokens of prompts that its cache holds; null: not reported. */
  readonly cacheTokens: number | null
}

/** One answer to "how are you": what `GET /svc/v1/status` says of an agent's runtime, learnt by the server's own signs. */
export interface RuntimeStatus {
  readonly kind: RuntimeKind
  /** `down` means that the server answers, but not as one that can take a chat. */
  readonly state: 'ready' | 'loading' | 'down'
  readonly models: readonly RuntimeModel[]
  /** null: the server does not say. */
  readonly slotsTotal: number | null
  readonly slotsFree: number | null
  readonly queueDepth: number | null
  /** Requests that it works on now. Absent: it says so by its slots, or not at all. */
  readonly running?: number
  /** Its data-parallel ranks in their order, each with its own queue and cache. Absent: it has one, or does not say. */
  readonly ranks?: readonly RankLoad[]
  /** The rank that this status is about, where it is about one of several. */
  readonly rank?: number
  /** Differs from the last poll's if the server was started anew in between, as far as it shows. Absent: it shows nothing of that. */
  readonly startMark?: string
  /** By device, what the models of the file may take together, MB. Absent: the agent has no such file. */
  readonly budgetsMb?: Readonly<Record<string, number>>
}

/** Sends a command to a model server: the status of its answer to a POST with this JSON. */
export interface ControlledServer {
  readonly get: ProbeFetch
  post(path: string, body: object): Promise<number>
}

/** Resolves when the server has done it, which may take as long as a load; false: it would not; null: it has no interface for it. */
export type ModelWish = (
  server: ControlledServer,
  model: Pick<RuntimeModel, 'id' | 'modality' | 'adapts'>,
) => Promise<boolean | null>

/** A kind of server that loads and unloads models on command. */
export interface ModelLoads {
  readonly load: ModelWish
  readonly unload: ModelWish
}

/** One kind of model server: one file in this folder, one line in the registry. */
export interface RuntimeModule {
  readonly kind: RuntimeKind
  /** Ports on loopback where discovery looks for it. */
  readonly ports: readonly number[]
  /** True when the server behind `get` is of this kind. Throws only what `get` throws (the server did not answer). */
  detect(get: ProbeFetch): Promise<boolean>
  /**
   * Never runs a completion and never loads a model. Throws only what `get` throws. `before`: its last answer since the
   * server came up, so that what does not change is asked once; null: this is the first.
   */
  probe(get: ProbeFetch, before?: RuntimeStatus | null): Promise<RuntimeStatus>
  /**
   * The server notices late that the client of a whole answer has left, and keeps the slot until then, so the gateway
   * asks for a stream instead. False for a request whose stream lacks parts of its whole answer.
   */
  readonly freesLate?: (request: ChatRequest) => boolean
  /** It bounds a chat by `max_tokens`, and passes over `max_completion_tokens`. */
  readonly boundByMaxTokens?: true
  /** Members of a chat that switch thinking on or off (§35). Absent: the template of the model has the switch. */
  readonly thinking?: (on: boolean) => Json
  /** How to ask for a ranking. Absent if this kind of server cannot rank. */
  readonly rerank?: RerankDialect
  /** How its tokenizer is asked. Absent if it has none that can be. */
  readonly tokenizer?: Tokenizer
  /** How to load and unload models. Absent if the kind has no interface for it. */
  readonly loads?: ModelLoads
}

/** A status with no model and no word on slots. */
export function idleStatus(kind: RuntimeKind, state: 'loading' | 'down'): RuntimeStatus {
  return { kind, state, models: [], slotsTotal: null, slotsFree: null, queueDepth: null }
}

export const modalityOf = ({ modality }: RuntimeModel): Modality => modality ?? 'chat'

/** The ranker that every agent has built in. It compares words, over the documents of one request alone. */
export const lexicalModelId = 'lexical/bm25'

/** Serves requests of the pool. The built-in ranker is for the agent's own machine: it makes no machine ready for work. */
export const isPooled = (model: RuntimeModel): boolean => model.id !== lexicalModelId
