import { Alarm, type Clock, systemClock } from '../../clock.ts'
import { within } from '../../deadline.ts'
import { failureName, type Log } from '../../log.ts'
import { newToken } from '../../secrets.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import { createDirectTransport } from '../../transport/http1/direct.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import type { GatewayHandle } from '../gateway-handle.ts'
import { startLoopbackNode } from './loopback-node.ts'
import { createRehearsal } from './rehearsal.ts'

/** A listener through which the requests of the warm-up alone come in. */
export interface WarmDoor {
  readonly url: string
  stop(): Promise<void>
}

/** Opens the whole way of a request on loopback; a caller who does not send `key` is told nothing. */
export type OpenDoor = (gateway: GatewayHandle, key: string) => WarmDoor

/** No request is sent any more after, ms. */
const askMsMax = 850
/** Timeout for closing all that was opened, ms: with `askMsMax` less than a second. */
const closeMsMax = 100
/** More answers would make the first client's request little faster. */
const answersEnough = 500
/** Each holds four descriptors of this process. */
const atOnce = 16
const answerBytesMax = 64 * 1024
const model = 'warm-up'
const path = '/v1/api/chat/completions'
const messages = [{ role: 'user', content: 'Are you warm?' }]
const headers = { 'content-type': 'application/json' }
const bodies = [false, true].map((stream) => JSON.stringify({ model, messages, stream }))

/** Asks again and again, whole and as a stream in turn, until there are answers enough or its time is over. */
class Clients {
  answered = 0
  private over = false
  private readonly running = new Set<CallSignal>()

  constructor(
    private readonly door: NodeTransport,
    private readonly clock: Clock,
  ) {}

  async run(ms: number): Promise<void> {
    const alarm = new Alarm(() => this.end(), this.clock)
    alarm.set(ms)
    try {
      await Promise.all(Array.from({ length: atOnce }, (_, at) => this.askAll(at)))
    } catch (error) {
      // What the end of the time has cut short has not failed.
      if (!this.over) throw error
    } finally {
      alarm.clear()
      this.end()
    }
  }

  private async askAll(first: number): Promise<void> {
    for (let at = first; !this.over && this.answered < answersEnough; at++)
      await this.ask(bodies[at % bodies.length] ?? '')
  }

  private async ask(body: string): Promise<void> {
    const signal = new CallSignal()
    this.running.add(signal)
    try {
      const answer = await this.door.fetch(path, { method: 'POST', headers, body, signal })
      await answer.text(answerBytesMax)
      if (answer.status !== 200) throw new Error('refused')
      this.answered++
    } finally {
      this.running.delete(signal)
    }
  }

  private end(): void {
    this.over = true
    for (const signal of this.running) signal.abort()
  }
}

/** What was opened last first. */
async function close(opened: (() => unknown)[], log: Log, clock: Clock): Promise<void> {
  const closing = async () => {
    for (const end of opened.reverse()) await end()
  }
  await within(closeMsMax, closing(), clock).catch((error: unknown) => {
    log.warn('warm_up_left', { failure: failureName(error) })
  })
}

/**
 * Runs real requests through the whole path, against a node of its own, so that the first client does not wait for cold
 * code. Nothing of them is kept or seen. A gateway that cannot warm up serves nevertheless.
 */
export async function warmUp(gateway: GatewayHandle, openDoor: OpenDoor, clock = systemClock): Promise<void> {
  const { log } = gateway
  const startedMs = clock.now()
  const opened: (() => unknown)[] = []
  try {
    const key = newToken('gateway')
    const secret = newToken('gateway')
    const node = startLoopbackNode(model, secret)
    opened.push(() => node.stop())
    const rehearsal = createRehearsal(gateway, { key, model, nodeUrl: node.url, secret })
    opened.push(() => rehearsal.stop())
    const door = openDoor(rehearsal.gateway, key)
    opened.push(() => door.stop())
    const client = createDirectTransport({ url: door.url, apiKey: key, connectTimeoutMs: askMsMax })
    opened.push(() => client.close())
    const clients = new Clients(client, clock)
    await clients.run(askMsMax - (clock.now() - startedMs))
    log.info('warmed_up', { answered: clients.answered, ms: Math.round(clock.now() - startedMs) })
  } catch (error) {
    log.warn('not_warmed_up', { failure: failureName(error) })
  } finally {
    await close(opened, log, clock)
  }
}
