import type { AnyElysia } from 'elysia'
import { randomFrom } from '../../../bench/conversations.ts'
import { adminRoute } from '../../../src/actions/registry.ts'
import { startGateway } from '../../../src/actors/gateway.ts'
import type { GatewayParts, RunningGateway } from '../../../src/actors/gateway-handle.ts'
import { headers } from '../../../src/brand.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { createApp } from '../../../src/http/app.ts'
import { createLog } from '../../../src/log.ts'
import { newToken } from '../../../src/secrets.ts'
import { listOf, readConfig } from '../../../src/settings/config.ts'
import { hourMs } from '../../../src/time.ts'
import { type TestDatabase, testDatabase } from '../run/postgres.ts'

export interface TestGateway {
  readonly gateway: RunningGateway
  readonly app: AnyElysia
  readonly database: TestDatabase
  readonly url: string
  /** The gateway's clock, Unix ms. */
  readonly now: () => number
  readonly tokens: Readonly<Record<'admin' | 'operator' | 'viewer', string>>
  /** Log lines so far, parsed. */
  logged(): readonly Record<string, unknown>[]
  /** A request; `as`: the role whose token is sent, `json`: a body. */
  ask(method: string, path: string, options?: AskOptions): Promise<Response>
  stop(): Promise<void>
}

export interface AskOptions {
  readonly as?: 'admin' | 'operator' | 'viewer'
  readonly json?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: BodyInit
}

/** Its log goes on only when a test has it caught up, so that each test sees its own entries. */
export const stillLog = { SVC_LOG_INTERVAL_MS: 'still' } as const
/** Longer than any test lasts. */
const stillMs = hourMs

/** A whole gateway over a fresh database on a free port: no discovery, no demo, the same dice in every run. `way`: how it gets to its database. */
export async function startTestGateway(
  env: Readonly<Record<string, string>> = {},
  way: (databaseUrl: string) => Promise<string> = async (url) => url,
  more: Pick<GatewayParts, 'world'> & Partial<Pick<GatewayParts, 'logMemory'>> & { readonly beside?: TestGateway } = {},
): Promise<TestGateway> {
  const database = more.beside?.database ?? (await testDatabase())
  const databaseUrl = await way(database.url)
  const tokens = more.beside?.tokens ?? {
    admin: newToken('admin'),
    operator: newToken('operator'),
    viewer: newToken('viewer'),
  }
  const isStill = env.SVC_LOG_INTERVAL_MS === stillLog.SVC_LOG_INTERVAL_MS
  const read = readConfig({
    DATABASE_URL: databaseUrl,
    SVC_ADMIN_TOKENS: tokens.admin,
    SVC_OPERATOR_TOKENS: tokens.operator,
    SVC_VIEWER_TOKENS: tokens.viewer,
    SVC_TOKEN_PEPPER: 'pepper-of-the-tests-0123456789abcdef',
    SVC_SECRETS_KEY: Buffer.alloc(32, 7).toString('base64'),
    SVC_AUDIT_KEY: 'audit-key-of-the-tests-0123456789abcdef',
    SVC_ROUTER_KEY: '11'.repeat(32),
    SVC_WEBHOOK_KEY: '44'.repeat(32),
    SVC_LOG_KEY: '77'.repeat(32),
    SVC_DISCOVER: 'false',
    SVC_DEMO: 'never',
    SVC_ADMIN_RPM_PER_TOKEN: '1000000',
    ...env,
    ...(isStill ? { SVC_LOG_INTERVAL_MS: undefined } : {}),
  })
  if ('faults' in read) throw new Error(read.faults.join('; '))
  const config = isStill ? { ...read.config, SVC_LOG_INTERVAL_MS: stillMs } : read.config
  let text = ''
  const log = createLog('debug', (more) => {
    text += more
  })
  const opened = openDatabase({ url: databaseUrl, connectionsMax: 4 })
  const list = (value: string | readonly string[] | null) => (value === null ? [] : [value].flat().flatMap(listOf))
  const gateway = await startGateway({
    config,
    log,
    database: opened,
    peppers: list(config.SVC_TOKEN_PEPPER),
    secretsKeys: list(config.SVC_SECRETS_KEY),
    auditKeys: list(config.SVC_AUDIT_KEY),
    routerKeys: list(config.SVC_ROUTER_KEY),
    webhookKeys: list(config.SVC_WEBHOOK_KEY),
    logKeys: list(config.SVC_LOG_KEY),
    logMemory: more.logMemory ?? null,
    roleTokensInDatabase: false,
    policyOf: adminRoute,
    world: { random: randomFrom(1), ...more.world },
  })
  const app = createApp(gateway).listen({ port: 0, hostname: '127.0.0.1' })
  const port = app.server?.port ?? 0
  await gateway.listening(port)
  const url = `http://127.0.0.1:${port}`
  return {
    gateway,
    app,
    database,
    url,
    now: more.world?.now ?? Date.now,
    tokens,
    logged: () => {
      log.flush()
      return text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Record<string, unknown>)
    },
    ask: (method, path, { as, json, headers: more, body } = {}) =>
      fetch(url + path, {
        method,
        headers: {
          ...(as === undefined ? {} : { [headers.adminToken]: tokens[as] }),
          ...(json === undefined ? {} : { 'content-type': 'application/json' }),
          ...more,
        },
        ...(json === undefined ? (body === undefined ? {} : { body }) : { body: JSON.stringify(json) }),
      }),
    stop: async () => {
      await app.server?.stop(true)
      await gateway.stop()
      await opened.close()
      if (more.beside === undefined) await database.drop()
    },
  }
}

/** The body as an object; fails where it is none. */
export async function json(response: Response): Promise<Record<string, unknown>> {
  return (await response.json()) as Record<string, unknown>
}
