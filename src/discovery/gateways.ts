import { isIP } from 'node:net'
import { gatewayService } from '../brand.ts'
import { isLoopback } from '../host/loopback.ts'
import { announcedServices, type Looking } from './announced-services.ts'
import type { Announcement } from './service-records.ts'

export interface FoundGateway {
  /** As it calls itself. Nothing proves it but the words of a join. */
  readonly name: string
  readonly url: string
}

/**
 * A person reads it before anybody trusts it, so it has no part that could deceive (a name before `@`) or steer the
 * terminal: only printable ASCII, and its host in the form that is dialled. null: none that an agent could join.
 */
function announcedUrl(text: string): string | null {
  const url = /^https?:\/\/[^\s"'`$\\]{1,200}$/.test(text) && URL.canParse(text) ? new URL(text) : null
  if (url === null || url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') return null
  return url.origin + url.pathname.replace(/\/+$/, '')
}

/** A gateway that has a URL of its own, as behind a proxy, announces it; else it is where it listens. */
function urlOf({ addresses, port, text }: Announcement): string | null {
  const url = text.get('url')
  if (url !== undefined) return announcedUrl(url)
  // Of itself a computer hears both, and others reach it by the second.
  const address = addresses.find((each) => !isLoopback(each)) ?? addresses[0] ?? ''
  return isIP(address) === 4 ? `http://${address}:${port}` : null
}

/** The gateways that announce themselves on the local network, each once. Never rejects. */
export async function announcedGateways(looking: Looking): Promise<readonly FoundGateway[]> {
  return gatewaysOf(await announcedServices(`_${gatewayService}._tcp`, looking))
}

export function gatewaysOf(announced: readonly Announcement[]): readonly FoundGateway[] {
  const found = new Map<string, FoundGateway>()
  for (const one of announced) {
    const url = urlOf(one)
    const name = one.instance.slice(0, -`._${gatewayService}._tcp.local`.length)
    if (url !== null && !found.has(url)) found.set(url, { name, url })
  }
  return [...found.values()]
}
