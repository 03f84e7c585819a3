import type { Hub } from './hubs/hub.ts'
import { nodes } from './hubs/nodes.ts'
import { hubs } from './hubs/registry.ts'

/** A place that the owner of this computer lets its agent fetch models from. */
export interface PullSource {
  readonly hub: Hub
  /** Without a slash at the end; empty where it is the gateway. */
  readonly base: string
}

/** A reference at a source that is allowed. */
export interface PlacedRef {
  readonly source: PullSource
  /** As the hub reads it. */
  readonly ref: string
}

function originOf(text: string): string | null {
  if (!URL.canParse(text)) return null
  const { origin, protocol, username, password, pathname, search, hash } = new URL(text)
  const isBare = username === '' && password === '' && pathname === '/' && search === '' && hash === ''
  return isBare && (protocol === 'https:' || protocol === 'http:') ? origin : null
}

/** Reads `nodes`, `hf`, `ollama`, `hf=https://mirror.example` or `https://models.example`. null: another text. */
export function pullSource(text: string): PullSource | null {
  if (text === 'nodes') return { hub: nodes, base: '' }
  const [, name = '', address] = /^(hf|ollama)(?:=(.+))?$/.exec(text) ?? []
  const hub = hubs.find((each) => each.name === (name === '' ? 'web' : name))
  const base = name !== '' && address === undefined ? (hub?.base ?? null) : originOf(address ?? text)
  return hub === undefined || base === null ? null : { hub, base }
}

/** null: the owner does not allow this source. */
export function placed(ref: string, sources: readonly PullSource[]): PlacedRef | null {
  const [, name, rest = ''] = /^(hf|ollama|node):(.+)$/.exec(ref) ?? []
  const source = sources.find(({ hub, base }) =>
    name === undefined ? hub.name === 'web' && URL.canParse(ref) && new URL(ref).origin === base : hub.name === name,
  )
  return source === undefined ? null : { source, ref: name === undefined ? ref : rest }
}
