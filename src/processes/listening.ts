import type { AnyElysia } from 'elysia'
import { failureName } from '../log.ts'
import type { Config } from '../settings/config.ts'
import { StartError } from './start-error.ts'

/** What a port that cannot be taken is called in words, and which setting mends it. */
const listenFaults: Readonly<Record<string, (config: Config) => string>> = {
  EADDRINUSE: ({ SVC_PORT }) => `Port ${SVC_PORT} is in use. Stop what listens there, or set SVC_PORT to another port.`,
  EACCES: ({ SVC_PORT }) => `Port ${SVC_PORT} may not be taken by this user. Set SVC_PORT to one above 1023.`,
  EADDRNOTAVAIL: () => 'SVC_HOST is not an address of this computer.',
}

function listenError(error: unknown, config: Config): unknown {
  const fault = listenFaults[failureName(error)]
  return fault === undefined ? error : new StartError(fault(config))
}

/** Before anything is made: a first start that fails later would have made credentials that nobody was shown. */
export function checkPort(config: Config): void {
  if (!config.embedded || config.SVC_PORT === 0) return
  const address = { hostname: config.SVC_HOST, port: config.SVC_PORT, exclusive: true }
  try {
    Bun.listen({ ...address, socket: { data() {} } }).stop(true)
  } catch (error) {
    throw listenError(error, config)
  }
}

/** `shared`: other processes listen on the same port. */
export function listen(app: AnyElysia, config: Config, shared: boolean): Bun.Server<unknown> {
  try {
    app.listen({ hostname: config.SVC_HOST, port: config.SVC_PORT, reusePort: shared })
  } catch (error) {
    throw listenError(error, config)
  }
  if (app.server === null) throw new StartError('The HTTP server did not start')
  return app.server
}

/** Resolves when every request that was taken has its answer, or at `untilMs`. Open WebSockets do not count (seen). */
export async function answered(servers: readonly Bun.Server<unknown>[], untilMs: number): Promise<void> {
  while (servers.some((server) => server.pendingRequests > 0) && performance.now() < untilMs) await Bun.sleep(10)
}
