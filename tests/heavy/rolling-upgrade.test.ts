import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { startEmbedded } from '../../src/db/embedded/embedded.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { newToken } from '../../src/secrets.ts'
import { Checkout } from '../support/releases/checkout.ts'
import { hasCode, keptReleases, makeCheckout } from '../support/releases/kept-release.ts'
import { chat, isReady } from '../support/releases/traffic.ts'
import { waitFor, waitUntil } from '../support/run/wait-until.ts'

/*
 * Two gateways on one database, the program of a release and that of today: the release migrates nothing, writes its receipts as rows
 * through what is a view now, reads what today's writes, and either may lead the log.
 */
const here = resolve(import.meta.dir, '../..')
const release = keptReleases().find((one) => one.name === 'aa044207')
if (release === undefined) throw new Error('no such release')
const work = mkdtempSync(join(tmpdir(), 'penstock-rolling-'))
const lacking = hasCode(release) ? '' : ` (SKIPPED: this clone lacks ${release.commit}; git fetch --unshallow)`
/** Of each kind at each gateway, while both run. */
const rounds = 30
const secrets = {
  SVC_TOKEN_PEPPER: 'pepper-of-both',
  SVC_SECRETS_KEY: 'secrets-of-both',
  SVC_AUDIT_KEY: 'audit-of-both',
  SVC_ROUTER_KEY: '22'.repeat(32),
  SVC_WEBHOOK_KEY: '33'.repeat(32),
  SVC_LOG_KEY: '77'.repeat(32),
  SVC_ADMIN_TOKENS: newToken('admin'),
}

const suite = hasCode(release) ? describe : describe.skip
suite(`a rolling upgrade from ${release.name}${lacking}`, () => {
  const old = new Checkout(join(work, 'code'), join(work, 'old'))
  const today = new Checkout(here, join(work, 'today'))
  const node = startFakeNode({ models: ['plain'] })
  let database: Awaited<ReturnType<typeof startEmbedded>>

  beforeAll(async () => {
    makeCheckout(release, old.root)
    database = await startEmbedded({ dataDir: join(work, 'database'), log: { info: () => {}, warn: () => {} } })
  }, 300_000)
  afterAll(async () => {
    node.stop()
    await database?.stop()
    rmSync(work, { recursive: true, force: true })
  })

  test('every answer of either gateway has its receipt in the one log, and the books are sound, before and after', async () => {
    const env = { ...secrets, DATABASE_URL: database.url }
    const first = await old.startGateway(env)
    const admin = { SVC_BASE_URL: first.url, SVC_ADMIN_TOKEN: secrets.SVC_ADMIN_TOKENS }
    const anyNode = ['--min-privacy-class', 'public']
    const made = async (name: string, wei: string | null) => {
      const { customer_id: id } = await old.json(['customers', 'create', name, ...anyNode], admin)
      const { gateway_key: key } = await old.json(['keys', 'create', 'k', '--customer', String(id), ...anyNode], admin)
      if (wei !== null) await old.json(['credits', 'add', String(id), wei, '--reason', 'paid'], admin)
      return { id: String(id), key: String(key) }
    }
    const [owner, ada] = [await made('Owner', null), await made('Ada', '1000000000')]
    const prices = ['--prompt-price-wei', '7', '--completion-price-wei', '11']
    await old.json(['models', 'set', 'plain', ...prices], admin)
    const open = ['--visibility', 'public', '--privacy-class', 'public', '--payout-address', `0x${'a1'.repeat(20)}`]
    const added = await old.json(['nodes', 'add', node.url, '--customer', owner.id, '--name', 'n', ...open], admin)
    const ready = (gateway: { readonly url: string }) =>
      waitUntil('the node', isReady({ url: gateway.url, adminToken: secrets.SVC_ADMIN_TOKENS }, String(added.node_id)))

    const hashes: string[] = []
    let migrating = false
    /**
     * A statement of the release may be what PostgreSQL ends for a deadlock with the migration, and the release refuses its requests then: as
     * clients do, this asks again where the answer says so.
     */
    const chatted = (...asked: Parameters<typeof chat>) =>
      waitFor('an answer', () =>
        chat(...asked).catch((error: unknown) => {
          if (!migrating || !/ 503 .*"retryable":true/.test(String(error))) throw error
          return null
        }),
      )
    const traffic = async (...gateways: readonly { readonly url: string }[]) => {
      for (let round = 0; round < rounds; round++) {
        const asked = gateways.flatMap((gateway) =>
          [owner.key, ada.key].flatMap((key) => [false, true].map((stream) => chatted(gateway, key, 'plain', stream))),
        )
        hashes.push(...(await Promise.all(asked)))
      }
    }
    await ready(first)
    await traffic(first)

    // The new one migrates under the old one, which goes on.
    migrating = true
    const [second] = await Promise.all([today.startGateway(env), traffic(first)])
    migrating = false
    await ready(second)
    await traffic(first, second)
    const logged = async (gateway: { readonly url: string }) => {
      for (const hash of hashes) {
        await waitUntil(
          'the receipt in the log',
          async () => (await fetch(`${gateway.url}/v1/public/log/proof?receipt_hash=${hash}`)).ok,
        )
      }
    }
    await logged(first)

    await first.stop()
    await traffic(second)
    await logged(second)
    expect(new Set(hashes).size).toBe(hashes.length)
    const now = { ...admin, SVC_BASE_URL: second.url }
    await waitUntil('the cutoff in the log', async () => {
      const { check } = (await today.json(['audit', 'books'], now)) as { check: { unsigned_receipts: number | null } }
      return check.unsigned_receipts !== null
    })
    expect(await today.json(['audit', 'books'], now)).toMatchObject({
      balanced: true,
      broken_rules: [],
      check: { sound: true, faults: [], unsigned_receipts: 0 },
    })
    await today.command(['audit', 'chain'], now)

    // The operator goes back to the release: it reads what today's has written.
    const again = await old.startGateway(env)
    await ready(again)
    await traffic(again)
    await logged(again)
    await again.stop()
    await logged(second)
    expect(await today.json(['audit', 'books'], now)).toMatchObject({
      balanced: true,
      broken_rules: [],
      check: { sound: true, faults: [] },
    })
    await second.stop()
  })
})
