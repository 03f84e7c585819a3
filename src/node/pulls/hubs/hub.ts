import type { HubFetch } from './hub-fetch.ts'

/** One file of a model. A model of several is split by llama.cpp's rule, and its first one names the others. */
export interface HubFile {
  /** As the hub calls it; it was not checked to be a name in a folder. */
  readonly name: string
  readonly url: string
  readonly bytes: number
  /** Lower-case hexadecimal. */
  readonly sha256: string
}

/** What a reference means at the hub. */
export interface Found {
  readonly files: readonly [HubFile, ...HubFile[]]
}

export interface Sought {
  /** Behind `hf:` or `ollama:`; the whole URL where the web is the hub. */
  readonly ref: string
  /** Where the hub is, without a slash at the end. */
  readonly base: string
  /** As the operator gave it with the order; null: the order has none. */
  readonly sha256: string | null
  readonly get: HubFetch
  readonly signal: AbortSignal
}

/** A place that models come from: one file in this folder, one line in the registry. */
export interface Hub {
  /** How references to it begin, and how the owner names it. */
  readonly name: 'hf' | 'ollama' | 'web' | 'node'
  /** Its own address; null: the owner names one, or it is the gateway. */
  readonly base: string | null
  /** Hosts, and what is below them, to which it hands downloads over. */
  readonly handsOverTo: readonly string[]
  /** The environment variable with the owner's token for it. */
  readonly tokenVariable: string | null
  /** The name of the model where nobody chose one. */
  modelOf(ref: string): string
  /** Throws `PullFault`. */
  find(sought: Sought): Promise<Found>
}
