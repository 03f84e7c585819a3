import { sleep } from '../clock.ts'
import { Problem } from '../errors.ts'
import { probeFetch } from '../polling/runtime-probe.ts'
import { discoveredModelsMax } from '../protocol/wire/nodes/discovery.ts'
import { detectRuntime, runtimeModules } from '../runtimes/registry.ts'
import type { RuntimeStatus } from '../runtimes/runtime.ts'
import { createDirectTransport } from '../transport/http1/direct.ts'

/** Where a model server may be. */
export interface ServerPlace {
  readonly address: string
  readonly port: number
}

/** No more than is told of it: servers of a hostile network could each say a megabyte, and 8,000 of them answer. */
export interface FoundServer {
  readonly url: string
  readonly kind: RuntimeStatus['kind']
  /** At most 20 ids. */
  readonly models: readonly string[]
}

export interface LooksOptions {
  /** Asked for only when this look may begin: to find places can take a while, too. */
  readonly places: readonly ServerPlace[] | ((signal: AbortSignal) => Promise<readonly ServerPlace[]>)
  /** The caller has left: nothing more is asked. */
  readonly signal: AbortSignal
  /** Not to be asked: the gateway itself. */
  readonly except?: (url: string) => boolean
  readonly limits?: Partial<LookLimits>
}

export interface LookLimits {
  /** How many places are asked at once. */
  readonly atOnce: number
  /** How many are begun in a second: a network of a home has routers that count connections. */
  readonly perSecond: number
  /** How long a place may take to accept a connection, ms. */
  readonly connectMs: number
  /** How long all its answers may take, ms. */
  readonly answerMs: number
}

const lookLimits: LookLimits = { atOnce: 128, perSecond: 250, connectMs: 700, answerMs: 3_000 }
/** All places of the largest range at these limits take a minute; a network that swallows everything takes longer. */
const wholeMsMax = 180_000
const secondMs = 1_000

/** The ports on which the model servers that we know listen by default. */
export const knownPorts: readonly number[] = [...new Set(runtimeModules.flatMap(({ ports }) => ports))].toSorted(
  (a, b) => a - b,
)

/** What answers as a model server at a URL; null: nothing does. Only GETs, as in a poll. Never rejects. */
async function serverAt(url: string, limits: LookLimits, given: AbortSignal): Promise<FoundServer | null> {
  const transport = createDirectTransport({ url, apiKey: null, connectTimeoutMs: limits.connectMs })
  const signal = AbortSignal.any([given, AbortSignal.timeout(limits.answerMs)])
  try {
    const get = probeFetch(transport, signal)
    const module = await detectRuntime(get, runtimeModules)
    if (module === null) return null
    const { kind, models } = await module.probe(get, null)
    return { url, kind, models: models.slice(0, discoveredModelsMax).map(({ id }) => id) }
  } catch {
    return null
  } finally {
    transport.close()
  }
}

/** Looks for model servers at places that somebody has named, one question at a time for each process. */
export class ServerLooks {
  private busy = false

  /**
   * Those that answer, by URL. Rejects with `invalid_state` while another look runs. It ends early with the signal and after
   * three minutes, with what was found until then.
   */
  async look({ places, signal: given, except = () => false, limits: own = {} }: LooksOptions) {
    if (this.busy)
      throw new Problem('invalid_state', { detail: 'Another look at the network runs. Wait until it has ended' })
    this.busy = true
    try {
      const signal = AbortSignal.any([given, AbortSignal.timeout(wholeMsMax)])
      const found = typeof places === 'function' ? await places(signal) : places
      return await lookThrough(found, { ...lookLimits, ...own }, signal, except)
    } finally {
      this.busy = false
    }
  }
}

async function lookThrough(
  places: readonly ServerPlace[],
  limits: LookLimits,
  signal: AbortSignal,
  except: (url: string) => boolean,
): Promise<{ readonly asked: number; readonly found: readonly FoundServer[] }> {
  const found: FoundServer[] = []
  let next = 0
  let freeMs = performance.now()
  const worker = async () => {
    for (;;) {
      const place = places[next]
      if (place === undefined || signal.aborted) return
      next++
      freeMs = Math.max(performance.now(), freeMs + secondMs / limits.perSecond)
      await sleep(Math.max(0, freeMs - performance.now()), signal)
      const url = `http://${place.address}:${place.port}`
      const server = signal.aborted || except(url) ? null : await serverAt(url, limits, signal)
      if (server !== null) found.push(server)
    }
  }
  await Promise.all(Array.from({ length: Math.min(limits.atOnce, places.length) }, worker))
  return { asked: next, found: found.toSorted((a, b) => a.url.localeCompare(b.url, 'en', { numeric: true })) }
}
