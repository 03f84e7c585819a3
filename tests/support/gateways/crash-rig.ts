import { expect } from 'bun:test'
import { join, resolve } from 'node:path'
import { startWebhookReceiver, type WebhookReceiver } from '../money/webhook-receiver.ts'
import { freePort } from './free-port.ts'
import { startTestGateway, type TestGateway, waitFor } from './gateway.ts'
import { firstMatch } from './gateway-process.ts'

/** A gateway in a process of its own that is killed and comes back at once, on the same port and database. */
export interface CrashRig {
  readonly gateway: TestGateway
  readonly receiver: WebhookReceiver
  /** Every `webhook_url` of these tests. */
  readonly webhookUrl: string
  /** `kill -9`; resolves when the next one listens. */
  crash(): Promise<void>
  /** As a careful client does: the same bytes again until there is an answer. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  stop(): Promise<void>
}

const root = resolve(import.meta.dir, '../../..')
const answerMs = 5_000
const againMs = 20
const settleMs = 400_000

export async function startCrashRig(env: Readonly<Record<string, string>> = {}): Promise<CrashRig> {
  const receiver = await startWebhookReceiver()
  let child: Bun.Subprocess<'ignore', 'pipe', 'inherit'>
  const launch = async (given: Readonly<Record<string, string>>): Promise<string> => {
    child = Bun.spawn([process.execPath, join(root, 'tests/support/gateways/job-gateway-main.ts')], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        PATH: process.env.PATH ?? '',
        TEST_RECEIVER_PORT: String(receiver.port),
        TEST_RECEIVER_CERTIFICATE: receiver.ca,
        ...given,
      },
    })
    return (await firstMatch(child.stdout, /listening (http:\S+) end/))[1] ?? ''
  }
  const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
    child.kill(signal)
    await child.exited
  }
  const gateway = await startTestGateway({
    env: { SVC_PORT: String(freePort()), SVC_ADMIN_RPM_PER_TOKEN: '1000000', ...env },
    launch: async (given) => ({ url: await launch(given), stop: () => end('SIGTERM') }),
  })
  return {
    gateway,
    receiver,
    webhookUrl: `https://${receiver.hostname}/in`,
    crash: async () => {
      await end('SIGKILL')
      await launch(gateway.env)
    },
    fetch: async (url, init) => {
      for (;;) {
        try {
          const response = await fetch(url, { ...init, signal: AbortSignal.timeout(answerMs) })
          // Read here: a gateway that dies under its answer has not answered.
          if (response.status < 500 && response.status !== 429) {
            return new Response(await response.arrayBuffer(), response)
          }
        } catch {
          // It is being killed, or not back yet.
        }
        await Bun.sleep(againMs)
      }
    },
    stop: async () => {
      await gateway.stop()
      await receiver.stop()
    },
  }
}

export interface SettledJobs {
  readonly deliveries: number
  readonly mostDeliveriesOfOneEvent: number
}

/** Waits for the last delivery; then each job has ended well, once, with one receipt and one event, and was told of. */
export async function expectEachOnce({ gateway, receiver }: CrashRig, jobsMax: number): Promise<SettledJobs> {
  const { sql } = gateway.database
  const delivered = async () => {
    const [row] = await sql`select count(*)::int as n from webhook_deliveries where status = 'delivered'`
    return row?.n === jobsMax
  }
  await waitFor('every event to be delivered', delivered, settleMs)
  const statuses = await sql`select status, count(*)::int as n from private_jobs group by status`
  expect(statuses.map(({ status, n }) => [status, n])).toEqual([['completed', jobsMax]])
  const [receipts] = await sql`select count(*)::int as n, count(distinct job_id)::int as jobs from receipts`
  expect([receipts?.n, receipts?.jobs]).toEqual([jobsMax, jobsMax])
  const [unmatched] = await sql`select count(*)::int as n from private_jobs j
    where not exists (select 1 from receipts r where r.receipt_hash = j.receipt_hash and r.job_id = j.job_id)`
  expect(unmatched?.n).toBe(0)
  const [events] = await sql`select count(*)::int as n, count(distinct command_id)::int as jobs from webhook_deliveries`
  expect([events?.n, events?.jobs]).toEqual([jobsMax, jobsMax])
  const perEvent = new Map<string, number>()
  for (const { headers, body } of receiver.received) {
    const key = `${headers['webhook-id']} ${JSON.parse(body).data.job_id} ${body}`
    perEvent.set(key, (perEvent.get(key) ?? 0) + 1)
  }
  expect(perEvent.size).toBe(jobsMax)
  return { deliveries: receiver.received.length, mostDeliveriesOfOneEvent: Math.max(...perEvent.values()) }
}
