import { loop } from '../host/loop.ts'
import { failureName } from '../log.ts'
import { type Announcement, ServiceRecords } from './service-records.ts'

export interface Looking {
  /** How long answers are waited for, ms. */
  readonly withinMs: number
  readonly signal?: AbortSignal
  /** Told once, where nothing was found: why nobody could be asked, such as no network, or none that takes multicast. */
  readonly failed?: (failure: string) => void
}

/** Questions go out anew so often, since the first ones may be lost, ms. */
const askEveryMs = 500

/**
 * Asks the local network by multicast DNS (RFC 6762) who offers a service, and returns what was announced within the
 * time. `type`: `_penstock._tcp`. Never rejects.
 */
export async function announcedServices(type: string, looking: Looking): Promise<readonly Announcement[]> {
  const { withinMs, signal, failed = () => {} } = looking
  const records = new ServiceRecords(`${type}.local`)
  // Read only where it is wanted: it opens a socket as soon as it is made.
  const { default: multicastDns } = await import('multicast-dns')
  const dns = multicastDns()
  const over = Promise.withResolvers<void>()
  const end = () => over.resolve()
  let failure: string | null = null
  const note = (error: unknown) => {
    failure ??= failureName(error)
  }
  dns.on('error', (error) => {
    note(error)
    end()
  })
  // Also each packet of a stranger that cannot be read.
  dns.on('warning', note)
  dns.on('response', ({ answers = [], additionals = [] }) => {
    records.take([...answers, ...additionals])
    ask()
  })
  const asked = new Set<string>()
  const ask = () => {
    const open = records.questions().filter(({ name, type: of }) => !asked.has(`${of} ${name}`))
    for (const { name, type: of } of open) asked.add(`${of} ${name}`)
    if (open.length > 0) dns.query([...open])
  }
  const again = () => {
    asked.clear()
    dns.query([{ name: `${type}.local`, type: 'PTR' }])
    ask()
  }
  const asking = loop({ everyMs: askEveryMs, run: again })
  dns.on('ready', () => void asking.startNow())
  const limit = setTimeout(end, withinMs)
  signal?.addEventListener('abort', end)
  if (signal?.aborted === true) end()
  await over.promise
  await asking.stop()
  clearTimeout(limit)
  signal?.removeEventListener('abort', end)
  await new Promise<void>((resolve) => dns.destroy(() => resolve()))
  const found = records.found()
  if (failure !== null && found.length === 0) failed(failure)
  return found
}
