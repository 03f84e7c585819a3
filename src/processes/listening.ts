import type { AnyElysia } from 'elysia'
import { portInUse } from '../host/port-holder.ts'
import { failureName } from '../log.ts'
import type { Config, Settings } from '../settings/config.ts'
import { type ListenAddress, listenAddress } from '../settings/listen-address.ts'
import { StartError } from './start-error.ts'

/** A place to listen at, and the settings that name it. */
export interface Place extends ListenAddress {
  readonly hostSetting: string
  readonly portSetting: string
}

/** What a port that cannot be taken is called in words, and which setting mends it. */
const listenFaults: Readonly<Record<string, (place: Place) => string>> = {
  EADDRINUSE: ({ port, portSetting: name }) => `${portInUse(port)}, or set ${name} to another port.`,
  EACCES: ({ port, portSetting: name }) => `Port ${port} may not be taken by this user. Set ${name} to one above 1023.`,
  EADDRNOTAVAIL: ({ hostSetting: name }) => `${name} is not an address of this computer.`,
}

function listenError(error: unknown, place: Place): unknown {
  const fault = listenFaults[failureName(error)]
  return fault === undefined ? error : new StartError(fault(place))
}

type Listens = Pick<Settings, 'SVC_HOST' | 'SVC_PORT' | 'SVC_OLLAMA_LISTEN'>

const ownPlace = ({ SVC_HOST: hostname, SVC_PORT: port }: Listens): Place => ({
  hostname,
  port,
  hostSetting: 'SVC_HOST',
  portSetting: 'SVC_PORT',
})

/** Where Ollama's interface listens; null: nowhere. */
function ollamaPlace({ SVC_OLLAMA_LISTEN: text }: Listens): Place | null {
  const address = text === null ? null : listenAddress(text)
  const setting = 'SVC_OLLAMA_LISTEN'
  return address === null ? null : { ...address, hostSetting: setting, portSetting: setting }
}

/** Where a gateway listens, its own place first; not where it takes any free port. */
export const placesOf = (settings: Listens): readonly Place[] =>
  [ownPlace(settings), ollamaPlace(settings)].filter((place) => place !== null).filter(({ port }) => port !== 0)

/** What keeps a gateway from listening there, and what mends it; null: nothing. */
export function faultAt(place: Place): { readonly code: string; readonly says: string } | null {
  const { hostname, port } = place
  try {
    Bun.listen({ hostname, port, exclusive: true, socket: { data() {} } }).stop(true)
    return null
  } catch (error) {
    const code = failureName(error)
    return { code, says: listenFaults[code]?.(place) ?? `Port ${port} cannot be taken (${code}).` }
  }
}

/** Before anything is made: a first start that fails later would have made credentials that were never shown. */
export function checkPorts(config: Config): void {
  if (!config.embedded) return
  for (const place of placesOf(config)) {
    const fault = faultAt(place)
    if (fault !== null) throw new StartError(fault.says)
  }
}

/** `shared`: other processes listen on the same port. */
export const listen = (app: AnyElysia, config: Config, shared: boolean): Bun.Server<unknown> =>
  listenAt(app, ownPlace(config), shared)

/** The same of Ollama's interface; null: it is off. */
export function listenAsOllama(
  appAt: (hostname: string) => AnyElysia,
  config: Config,
  shared: boolean,
): Bun.Server<unknown> | null {
  const place = ollamaPlace(config)
  return place === null ? null : listenAt(appAt(place.hostname), place, shared)
}

function listenAt(app: AnyElysia, place: Place, shared: boolean): Bun.Server<unknown> {
  const { hostname, port } = place
  try {
    app.listen({ hostname, port, reusePort: shared })
  } catch (error) {
    throw listenError(error, place)
  }
  if (app.server === null) throw new StartError('The HTTP server did not start')
  return app.server
}
