import { resolve4, resolve6 } from 'node:dns/promises'
import { fromPromise, type InspectionEvent } from 'xstate'
import { webhookUserAgent } from '../../brand.ts'
import type { OpenDatabase } from '../../db/client.ts'
import { announceDueWork } from '../../db/queries/jobs/jobs.ts'
import type { ClaimedWebhook, WebhookRow } from '../../db/queries/jobs/webhooks.ts'
import * as rows from '../../db/queries/jobs/webhooks.ts'
import { within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { failureName, type Log } from '../../log.ts'
import {
  type DeliveryOutcome,
  type DeliveryVerdict,
  webhookDeliveryMachine,
} from '../../machines/charts/webhook-delivery.ts'
import { retryAfterMs } from '../../machines/rules/retry-schedule.ts'
import { checkWebhookUrl } from '../../machines/rules/webhook-url.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { webhookSignature } from '../../protocol/signing/webhook-signature.ts'
import type { WebhookStatus } from '../../protocol/wire/inference/job.ts'
import { minuteMs, secondMs } from '../../time.ts'
import type { HeadFields } from '../../transport/http1/response-head.ts'
import { isGlobalAddress } from '../../transport/public-address.ts'
import type { Sealing } from '../accounts/sealing.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import { DueWork, dueWorkChannel } from '../durable/due-work.ts'
import { runToRest } from '../durable/run-to-rest.ts'
import { PostError, postPinned } from './pinned-post.ts'

export type { WebhookRow } from '../../db/queries/jobs/webhooks.ts'

export const webhookWork = 'webhooks'
/** A lease is longer than an attempt can take, so another gateway gets the row only after a crash. */
const leaseMs = minuteMs
const attemptMs = 15 * secondMs
const concurrencyMax = 32
const pollMsDefault = secondMs
const answerBytes = /^[ -~\t]{0,64}$/

/** What webhooks need from outside: the clock, the name look-up and the connection. Tests replace it as a whole. */
export interface WebhookWorld {
  /** Unix ms. */
  now(): number
  /** A random number from 0 to 1. */
  random(): number
  /** Resolves a name to all of its addresses and rejects if there are none. It is called before each attempt. */
  readonly resolve: (hostname: string) => Promise<readonly string[]>
  readonly post: typeof postPinned
}

export interface WebhooksOptions extends Pick<OpenDatabase, 'db' | 'sql'> {
  readonly log: Log
  readonly trail: AuditTrail
  readonly sealing: Sealing
  /** Newest first. */
  readonly keys: readonly SigningKey[]
  /** SVC_WEBHOOK_PORTS. */
  readonly ports: readonly number[]
  readonly inspect: (event: InspectionEvent) => void
  /** Counts the result of one attempt. */
  readonly counted: (result: DeliveryVerdict['status']) => void
  readonly world?: Partial<WebhookWorld>
  readonly pollMs?: number
}

/** Delivers the events of ended jobs until a receiver accepts them or the schedule ends (§11). */
export interface Webhooks extends Pick<DueWork<ClaimedWebhook>, 'start' | 'stop' | 'wake' | 'running'> {
  /** Throws `webhook_url_invalid`. */
  checkUrl(text: string): void
  /** Newest first. */
  list(filter: {
    readonly status: WebhookStatus | null
    readonly customerId: string | null
    readonly limit: number
  }): Promise<readonly WebhookRow[]>
  /** Sends the same event again with a new schedule. Throws `webhook_not_found` and `invalid_state`. */
  redeliver(webhookId: string, audit: AuditContext): Promise<WebhookRow>
}

const systemResolve = async (hostname: string): Promise<readonly string[]> => {
  const found = await Promise.allSettled([resolve4(hostname), resolve6(hostname)])
  const addresses = found.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
  if (addresses.length === 0) throw new Error('the name has no address')
  return addresses
}

const systemWorld: WebhookWorld = {
  now: Date.now,
  random: Math.random,
  resolve: systemResolve,
  post: postPinned,
}

export function createWebhooks(options: WebhooksOptions): Webhooks {
  const world = { ...systemWorld, ...options.world }
  const { db, sql, log, trail } = options
  const work = new DueWork<ClaimedWebhook>({
    name: webhookWork,
    sql,
    log,
    concurrencyMax,
    pollMs: options.pollMs ?? pollMsDefault,
    claim: async (limit) => {
      const now = new Date(world.now())
      const items = await rows.claimWebhooks(db, { now, leaseUntil: new Date(now.getTime() + leaseMs), limit })
      return { items, more: items.length === limit }
    },
    run: (webhook, signal) => deliver(options, world, webhook, signal),
  })
  return {
    start: () => work.start(),
    stop: () => work.stop(),
    wake: () => work.wake(),
    running: () => work.running(),
    checkUrl: (text) => {
      const checked = checkWebhookUrl(text, options.ports)
      if ('fault' in checked) throw new Problem('webhook_url_invalid', { param: 'webhook_url', detail: checked.fault })
    },
    list: (filter) => rows.listWebhooks(db, filter),
    redeliver: async (webhookId, audit) => {
      const row = await db.transaction(async (tx) => {
        const armed = await rows.rearmWebhook(tx, webhookId, new Date(world.now()))
        if (armed === null) return null
        await announceDueWork(tx, dueWorkChannel, webhookWork)
        await trail.record(tx, audit, { targetId: webhookId })
        return armed
      })
      if (row !== null) return row
      if ((await rows.getWebhook(db, webhookId)) === null) throw new Problem('webhook_not_found')
      throw new Problem('invalid_state', { detail: 'The event is not due yet, or the gateway is delivering it now' })
    },
  }
}

/** Runs one attempt: the chart goes from `delivering` to the state that the row gets. */
async function deliver(
  options: WebhooksOptions,
  world: WebhookWorld,
  webhook: ClaimedWebhook,
  signal: AbortSignal,
): Promise<void> {
  const { log } = options
  const seen = <T>(work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      log.error('webhook_failed', { webhook_id: webhook.webhookId, failure: failureName(error) })
      throw error
    })
  const machine = webhookDeliveryMachine.provide({
    actors: {
      post: fromPromise(({ signal: ended }) => seen(attempt(options, world, webhook, ended))),
      record: fromPromise(({ input }) => seen(record(options, world, webhook, input))),
    },
  })
  const context = { attempts: webhook.attempts, random: world.random(), verdict: null }
  await runToRest(
    machine,
    { value: 'delivering', context },
    { type: 'claimed' },
    {
      id: webhook.webhookId,
      log,
      inspect: options.inspect,
      signal,
    },
  )
}

async function record(
  { db, counted, log }: WebhooksOptions,
  world: WebhookWorld,
  webhook: ClaimedWebhook,
  verdict: DeliveryVerdict,
): Promise<boolean> {
  const now = world.now()
  const held = await rows.recordDelivery(db, webhook.webhookId, webhook.leaseId, {
    status: verdict.status,
    lastError: verdict.status === 'delivered' ? null : verdict.error,
    dueAt: verdict.status === 'retry_scheduled' ? new Date(now + verdict.delayMs) : null,
    deliveredAt: verdict.status === 'delivered' ? new Date(now) : null,
  })
  if (held) counted(verdict.status)
  else log.warn('webhook_lease_lost', { webhook_id: webhook.webhookId })
  return held
}

const failed = (error: string): DeliveryOutcome => ({ kind: 'failed', error, retryAfterMs: null })

/** The URL is checked before each attempt, because the rules and the meaning of the name may have changed. */
async function attempt(
  options: WebhooksOptions,
  world: WebhookWorld,
  webhook: ClaimedWebhook,
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  const checked = checkWebhookUrl(webhook.url, options.ports)
  if ('fault' in checked) return { kind: 'stopped', error: 'blocked_address' }
  const { url } = checked
  const began = performance.now()
  const addresses = await within(attemptMs, world.resolve(url.hostname)).catch(() => null)
  const [address] = addresses ?? []
  if (addresses === null || address === undefined) return failed('dns_error')
  // If any address is private, the delivery fails: attackers mix one private address with public ones.
  if (!addresses.every(isGlobalAddress)) return failed('blocked_address')
  const timestamp = Math.floor(world.now() / secondMs)
  const headers = await signedHeaders(options, world, webhook, timestamp)
  try {
    const answer = await world.post({
      address,
      port: url.port === '' ? 443 : Number(url.port),
      hostname: url.hostname,
      path: url.pathname + url.search,
      headers,
      body: webhook.body,
      timeoutMs: Math.max(1, attemptMs - (performance.now() - began)),
      signal,
    })
    return outcomeOf(answer.status, answer.headers, world.now())
  } catch (error) {
    if (!(error instanceof PostError)) throw error
    return failed(error.failure === 'stopped' ? 'connect_error' : error.failure)
  }
}

function outcomeOf(status: number, headers: HeadFields, nowMs: number): DeliveryOutcome {
  if (status >= 200 && status < 300) return { kind: 'delivered' }
  if (status === 410) return { kind: 'stopped', error: 'gone' }
  if (headers.get('webhook-delivery')?.trim().toLowerCase() === 'abort-message') {
    return { kind: 'stopped', error: 'aborted_by_receiver' }
  }
  const wish = headers.get('retry-after') ?? null
  const wait = wish !== null && answerBytes.test(wish) ? retryAfterMs(wish, nowMs) : null
  return { kind: 'failed', error: `http_${status}`, retryAfterMs: wait }
}

async function signedHeaders(
  { db, sealing, keys, log }: WebhooksOptions,
  world: WebhookWorld,
  { webhookId, customerId, body }: ClaimedWebhook,
  timestamp: number,
): Promise<Readonly<Record<string, string>>> {
  const sealed = await rows.webhookSecretsOf(db, customerId, new Date(world.now()))
  const secrets = sealed.map((secret) => sealing.open('webhook_secret', secret)).filter((secret) => secret !== null)
  if (secrets.length < sealed.length) log.error('webhook_secret_unreadable', { webhook_id: webhookId })
  return {
    'content-type': 'application/json',
    'user-agent': webhookUserAgent,
    'webhook-id': webhookId,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': webhookSignature({ webhookId, timestamp, body }, keys, secrets),
  }
}
