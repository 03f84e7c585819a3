import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createSocket } from 'node:dgram'
import type { SrvAnswer, StringAnswer } from 'dns-packet'
import multicastDns, { type MulticastDNS, type ResponsePacket } from 'multicast-dns'
import { announcedServices } from '../../src/discovery/announced-services.ts'
import { announcedGateways } from '../../src/discovery/gateways.ts'
import { announce, localName } from '../../src/host/local-name.ts'
import { ownAddresses } from '../../src/host/own-addresses.ts'
import { createLog } from '../../src/log.ts'
import { readConfig } from '../../src/settings/config.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/gateway.ts'
import { lasts } from '../support/run/lasts.ts'
import { stopwatch } from '../support/run/stopwatch.ts'
import { settled, waitFor, waitUntil } from '../support/run/wait-until.ts'

const someName = 'penstock-hears-itself.local'
const service = 'penstock._http._tcp.local'

type Answer = NonNullable<ResponsePacket['answers']>[number]

/** Another device of the network: a client of its own make, which hears all that is said. */
class Device {
  readonly heard: Answer[] = []
  private readonly dns: MulticastDNS = multicastDns()

  constructor() {
    this.dns.on('response', ({ answers = [], additionals = [] }) => this.heard.push(...answers, ...additionals))
  }

  say(answer: Answer): void {
    this.dns.respond([answer])
  }

  /** Asks again until somebody answers so. */
  async hears(name: string, type: 'A' | 'SRV', fits: (answer: Answer) => boolean): Promise<void> {
    const isIt = (answer: Answer) => answer.name === name && answer.type === type && fits(answer)
    await waitUntil(`an answer for ${name}`, () => {
      if (this.heard.some(isIt)) return true
      this.dns.query(name, type)
      return false
    })
  }

  stop = () => new Promise<void>((resolve) => this.dns.destroy(() => resolve()))
}

/** A machine without a network, or whose network takes no multicast, cannot show anything here. */
const hearingMsMax = 5_000
async function hearsItself(): Promise<boolean> {
  if (ownAddresses().length === 0) return false
  const device = new Device()
  const sinceMs = stopwatch()
  while (device.heard.every(({ name }) => name !== someName) && sinceMs() < hearingMsMax) {
    device.say({ name: someName, type: 'A', ttl: 1, data: '192.0.2.77' })
    await lasts(20)
  }
  await device.stop()
  return device.heard.some(({ name }) => name === someName)
}

describe.skipIf(!(await hearsItself()))('SVC_MDNS', () => {
  let gateway: TestGateway
  let device: Device
  beforeAll(async () => {
    device = new Device()
    gateway = await startTestGateway({ env: { SVC_HOST: '0.0.0.0', SVC_MDNS: 'true' } })
  })
  afterAll(() => device.stop())

  test('§39: an agent that looks for a gateway finds this one, where it listens or where its own URL leads', async () => {
    const { port } = new URL(gateway.url)
    const found = (fits: (url: URL) => boolean) =>
      waitFor('the gateway', async () =>
        (await announcedGateways({ withinMs: 300 })).map(({ url }) => new URL(url)).find(fits),
      )
    const here = await found((url) => url.port === port)
    expect(['127.0.0.1', ...ownAddresses()]).toContain(here.hostname)
    const log = createLog('silent', () => {})
    const publicUrl = `https://gateway-${port}.example`
    const stop = await announce({ host: '0.0.0.0', port: 9, publicUrl, log })
    await found(({ origin }) => origin === publicUrl)
    await stop()
  })

  test('§39: packets that nobody can read are told of once, and not where something was found', async () => {
    // Whoever asks gets them beside the answers.
    const [stranger, socket] = [multicastDns(), createSocket('udp4')]
    stranger.on('query', () => socket.send(Buffer.from('no packet of DNS'), 5353, '224.0.0.251'))
    const heard = async (type: string) => {
      const failures: string[] = []
      const found = await announcedServices(type, { withinMs: 1_200, failed: (failure) => failures.push(failure) })
      return { found: found.length > 0, failures: failures.length }
    }
    expect(await heard('_penstock-nobody._tcp')).toEqual({ found: false, failures: 1 })
    const gateways = await waitFor('the gateway', async () => {
      const once = await heard('_penstock._tcp')
      return once.found ? once : null
    })
    expect(gateways.failures).toBe(0)
    await new Promise<void>((resolve) => stranger.destroy(() => resolve()))
    socket.close()
  })

  test('§39: who gives up looking waits no longer', async () => {
    const leaving = new AbortController()
    const looking = announcedGateways({ withinMs: 600_000, signal: leaving.signal })
    leaving.abort()
    await settled('the end of the search', looking)
  })

  test('another device finds the gateway by name, and its service with the port; on its end it says goodbye', async () => {
    const port = Number(new URL(gateway.url).port)
    // On loopback it says 127.0.0.1, which is right there.
    await device.hears(localName, 'A', (answer) => ownAddresses().includes(String((answer as StringAnswer).data)))
    await device.hears(service, 'SRV', (answer) => {
      const { data } = answer as SrvAnswer
      return data.target === localName && data.port === port
    })
    device.heard.length = 0
    await gateway.stop()
    const goodbye = (answer: Answer) => answer.type === 'PTR' && answer.data === service && answer.ttl === 0
    await waitUntil('the goodbye', () => device.heard.some(goodbye))
  })
})

test('a gateway that only its own computer reaches has no name to tell', () => {
  const read = readConfig({ SVC_MDNS: 'true', SVC_HOST: '127.0.0.1' })
  expect(read).toEqual({ faults: ['SVC_MDNS needs SVC_HOST=0.0.0.0 or an address that other devices reach'] })
})

test('what cannot be announced is logged, and keeps no gateway from serving', async () => {
  const lines: string[] = []
  const log = createLog('info', (text) => lines.push(text))
  // No port that a service can have.
  const stop = await announce({ host: '0.0.0.0', port: Number.NaN, log })
  await stop()
  await log.flush()
  expect(lines.join('')).toContain('"local_name_failed"')
})
