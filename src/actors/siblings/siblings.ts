import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Static, TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { headers } from '../../brand.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { sha256Hex } from '../../secrets.ts'
import { createDirectTransport } from '../../transport/http1/direct.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import { PeerProofs, peerProof } from '../tunnels/peer-proof.ts'
import type { ProcessPlace } from './process-place.ts'

/** What a process says of itself. */
export type OwnPart =
  | 'metrics'
  | 'explain'
  | 'mixtures'
  | 'transitions'
  | 'loads'
  | 'moved'
  | 'totals'
  | 'requests'
  | 'demands'
  | 'consoles'
  | 'readings'
  | 'polls'
export const ownPartPath = '/v1/peer/own/'

/** What the others said, and how many of them said nothing in time. */
export interface Survey<T> {
  readonly answers: readonly T[]
  readonly silent: number
}

/** `name`: of the process among its siblings. */
export interface NamedAnswer<T> {
  readonly name: string
  readonly answer: T
}

/** The other processes of this gateway (§33). */
export interface Siblings {
  /** What each says of itself. Does not reject. */
  survey<T extends TSchema>(
    part: OwnPart,
    query: Readonly<Record<string, string>>,
    schema: T,
  ): Promise<Survey<Static<T>>>
  /** What each says of itself, without those that do not answer in time. Does not reject. */
  ask<T extends TSchema>(part: OwnPart, query: Readonly<Record<string, string>>, schema: T): Promise<Static<T>[]>
  /**
   * The first answer of those with one of these names, of all with null; null: none answers within `withinMs`. Does not reject.
   */
  first<T extends TSchema>(
    names: readonly string[] | null,
    part: OwnPart,
    query: Readonly<Record<string, string>>,
    schema: T,
    withinMs?: number,
  ): Promise<NamedAnswer<Static<T>> | null>
  /** Whether a sibling asks. `target`: path and query. */
  admits(proof: string | null, target: string): boolean
  /** Counted from 0; null: there are no others. */
  readonly index: number | null
  /** Of this process among its siblings. */
  readonly name: string
  close(): void
}

export const alone: Siblings = {
  survey: async () => ({ answers: [], silent: 0 }),
  ask: async () => [],
  first: async () => null,
  admits: () => false,
  index: null,
  name: '',
  close: () => {},
}

const answerMsMax = 1_000
const answerBytesMax = 16 * 1024 * 1024
const socketsMax = 128
const noBody = sha256Hex('')

export function createSiblings({ index, socketFolder, socketName, secret }: ProcessPlace): Siblings {
  const ways = new Map<string, NodeTransport>()
  const proofs = new PeerProofs(secret)
  const wayTo = (name: string): NodeTransport => {
    const known = ways.get(name)
    if (known !== undefined) return known
    const socketPath = join(socketFolder, name)
    const way = createDirectTransport({
      url: 'http://process',
      apiKey: null,
      connectTimeoutMs: answerMsMax,
      socketPath,
    })
    ways.set(name, way)
    return way
  }
  /** Processes come and go with their sockets. */
  const others = async (): Promise<readonly string[]> => {
    const found = (await readdir(socketFolder)).filter((name) => name.endsWith('.sock') && name !== socketName)
    for (const [name, way] of ways) {
      if (found.includes(name)) continue
      way.close()
      ways.delete(name)
    }
    return found.slice(0, socketsMax)
  }
  const askOne = async (name: string, target: string, withinMs = answerMsMax): Promise<unknown> => {
    const request = { replicaId: name, method: 'GET', path: target, head: '', bodyHash: noBody }
    const response = await wayTo(name).fetch(target, {
      method: 'GET',
      headers: { [headers.peerProof]: peerProof(secret, request, Date.now()) },
      signal: AbortSignal.timeout(withinMs),
    })
    const text = await response.text(answerBytesMax)
    return response.status === 200 ? foreignJson(text) : undefined
  }
  const targetOf = (part: OwnPart, query: Readonly<Record<string, string>>) =>
    `${ownPartPath}${part}?${new URLSearchParams({ of: part, ...query })}`
  const first: Siblings['first'] = async (named, part, query, schema, withinMs) => {
    const target = targetOf(part, query)
    const names = named ?? (await others().catch(() => []))
    const asked = names.map(async (name) => {
      const answer = await askOne(name, target, withinMs)
      if (!Value.Check(schema, answer)) throw new Error('no such answer')
      return { name, answer }
    })
    return Promise.any(asked).catch(() => null)
  }
  const survey: Siblings['survey'] = async (part, query, schema) => {
    const target = targetOf(part, query)
    const names = await others().catch(() => [])
    // One that is going, or that is stuck, has nothing to say; the others have.
    const said = await Promise.all(names.map((name) => askOne(name, target).catch(() => undefined)))
    const answers = said.filter((answer): answer is Static<typeof schema> => Value.Check(schema, answer))
    return { answers, silent: said.length - answers.length }
  }
  return {
    survey,
    first,
    ask: async (part, query, schema) => [...(await survey(part, query, schema)).answers],
    admits: (proof, target) =>
      proofs.check(proof, { replicaId: socketName, method: 'GET', path: target, head: '' }) === noBody,
    index,
    name: socketName,
    close: () => {
      for (const way of ways.values()) way.close()
    },
  }
}
