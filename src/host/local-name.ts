import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { gatewayService, product } from '../brand.ts'
import { failureName, type Log } from '../log.ts'
import { isWildcard } from './own-addresses.ts'

/** The name of this gateway on the local network, as it first asks for it. */
export const localName = `${product}.local`

/** Time limit for the goodbye to the network, ms. */
const goodbyeMs = 1_000

export interface Announced {
  /** The address or wildcard on which the gateway listens. */
  readonly host: string
  readonly port: number
  /** SVC_PUBLIC_URL: where agents are to go instead; null: where it listens. */
  readonly publicUrl?: string | null
  readonly log: Log
}

/**
 * Announces this computer on the local network as `penstock.local` by multicast DNS (RFC 6762), with an HTTP service for
 * browsers and one for node agents (RFC 6763). Returns a function that stops it. If the name is taken, the log shows the new one. A network without
 * multicast, or without the name, is logged; the gateway serves anyway.
 */
export async function announce(announced: Announced): Promise<() => Promise<void>> {
  const { log } = announced
  const failed = (error: unknown) => log.warn('local_name_failed', { error: failureName(error) })
  try {
    // Read only where it is wanted: it costs memory and a second of start.
    const { getResponder } = await import('@homebridge/ciao')
    const interfaces = pairedInterfaces()
    const responder = getResponder(interfaces.length === 0 ? {} : { interface: [...interfaces] })
    const service = responder.createService(pageOf(announced))
    service.on('hostname-change', (name: string) => log.warn('local_name_taken', { instead: name }))
    const door = responder.createService(agentsDoorOf(announced))
    // Services of one network are told apart by this name, and nobody types it: any is good.
    for (const each of [service, door]) each.on('name-change', () => {})
    // One after the other: two at once take each other for a stranger with the same name.
    const advertised = async () => {
      await service.advertise()
      log.info('local_name', { name: service.getHostname() })
      await door.advertise()
    }
    void advertised().catch(failed)
    return () => Promise.race([responder.shutdown(), Bun.sleep(goodbyeMs)])
  } catch (error) {
    failed(error)
    return async () => {}
  }
}

const sysNet = '/sys/class/net'

/**
 * The interfaces of a computer that has only ends of virtual cables, as a container has. `ip link` names them with their other
 * end (`eth0@if7`), which the library takes for their name (seen with 1.3.12). Empty: it finds them by itself.
 */
function pairedInterfaces(): readonly string[] {
  const outer = Object.entries(networkInterfaces()).filter(([, entries = []]) =>
    entries.some(({ family, internal }) => family === 'IPv4' && !internal),
  )
  const names = outer.map(([name]) => name)
  const isPaired = (name: string) => {
    const number = (file: string) => readFileSync(join(sysNet, name, file), 'utf8').trim()
    return number('iflink') !== number('ifindex')
  }
  try {
    return names.every(isPaired) ? names : []
  } catch {
    return []
  }
}

const serviceOf = ({ host, port }: Announced) => ({
  name: product,
  hostname: product,
  port,
  disabledIpv6: host === '0.0.0.0',
  ...(isWildcard(host) ? {} : { restrictedAddresses: [host] }),
})

// Without a text record the library mistakes its own announcement for another's (seen with 1.3.12).
/** For a browser of services, which opens the page. */
const pageOf = (announced: Announced) => ({ ...serviceOf(announced), type: 'http', txt: { path: '/console' } })
/** For agents that look for a gateway to join. */
const agentsDoorOf = (announced: Announced) => ({
  ...serviceOf(announced),
  type: gatewayService,
  txt: announced.publicUrl == null ? { v: '1' } : { v: '1', url: announced.publicUrl },
})
