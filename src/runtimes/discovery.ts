import { detectRuntime, runtimeModules } from './registry.ts'
import type { ProbeFetch, RuntimeModule } from './runtime.ts'

export interface DiscoveredRuntime {
  readonly port: number
  readonly module: RuntimeModule
}

export interface DiscoveryOptions {
  /** The way to one port of loopback. Its requests end, one way or the other, when `signal` aborts. */
  readonly fetchFor: (port: number, signal: AbortSignal) => ProbeFetch
  /** All ports together get this long, ms. */
  readonly timeoutMs: number
  /** Ports not to look at: our own. */
  readonly except?: readonly number[]
  readonly modules?: readonly RuntimeModule[]
}

/**
 * The model servers on the known ports of loopback, by port. A port that refuses, is silent or speaks something else is
 * passed over; never rejects.
 */
export async function discover(options: DiscoveryOptions): Promise<readonly DiscoveredRuntime[]> {
  const modules = options.modules ?? runtimeModules
  const ports = new Set(modules.flatMap((module) => module.ports).filter((port) => !options.except?.includes(port)))
  const abort = new AbortController()
  const late = Promise.withResolvers<null>()
  const timer = setTimeout(() => {
    abort.abort()
    late.resolve(null)
  }, options.timeoutMs)
  const look = async (port: number): Promise<DiscoveredRuntime | null> => {
    try {
      const module = await detectRuntime(options.fetchFor(port, abort.signal), modules)
      return module === null ? null : { port, module }
    } catch {
      return null
    }
  }
  try {
    const found = await Promise.all([...ports].map((port) => Promise.race([look(port), late.promise])))
    return found.filter((entry) => entry !== null).toSorted((a, b) => a.port - b.port)
  } finally {
    clearTimeout(timer)
    abort.abort()
  }
}
