import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type postgres from 'postgres'
import { connect } from '../../src/db/client.ts'
import { startEmbedded } from '../../src/db/embedded/embedded.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { newToken } from '../../src/secrets.ts'
import { Checkout } from '../support/releases/checkout.ts'
import { hasCode, keptReleases, makeCheckout } from '../support/releases/kept-release.ts'
import { adminGet, chat, isReady } from '../support/releases/traffic.ts'
import { turn } from '../support/run/turn.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/*
 * Paid load on two gateways of one database, the program of a release, which writes a row for each charge, and that of today, which writes
 * groups and leases money: through the migration, while either builds batches, and until the release has ended. `PENSTOCK_ROLLING_COMMIT` names another release.
 */
const here = resolve(import.meta.dir, '../..')
const kept = keptReleases().find((one) => one.name === 'aa044207')
if (kept === undefined) throw new Error('no such release')
const release = { ...kept, commit: process.env.PENSTOCK_ROLLING_COMMIT ?? kept.commit }
const work = mkdtempSync(join(tmpdir(), 'penstock-charges-'))
const lacking = hasCode(release) ? '' : ` (SKIPPED: this clone lacks ${release.commit}; git fetch --unshallow)`
/** At each gateway. */
const clients = 12
const creditWei = 10n ** 12n
const secrets = {
  SVC_TOKEN_PEPPER: 'pepper-of-both',
  SVC_SECRETS_KEY: 'secrets-of-both',
  SVC_AUDIT_KEY: 'audit-of-both',
  SVC_ROUTER_KEY: '22'.repeat(32),
  SVC_WEBHOOK_KEY: '33'.repeat(32),
  SVC_LOG_KEY: '77'.repeat(32),
  SVC_ADMIN_TOKENS: newToken('admin'),
}

type Gateway = Awaited<ReturnType<Checkout['startGateway']>>

const suite = hasCode(release) ? describe : describe.skip
suite(`charges through a rolling upgrade from ${release.commit.slice(0, 8)}${lacking}`, () => {
  const old = new Checkout(join(work, 'code'), join(work, 'old'))
  const today = new Checkout(here, join(work, 'today'))
  const node = startFakeNode({ models: ['plain'] })
  let database: Awaited<ReturnType<typeof startEmbedded>>
  let sql: postgres.Sql
  const answered = new Set<string>()

  beforeAll(async () => {
    makeCheckout(release, old.root)
    database = await startEmbedded({ dataDir: join(work, 'database'), log: { info: () => {}, warn: () => {} } })
    sql = connect(database.url, { max: 2 })
  }, 300_000)
  afterAll(async () => {
    node.stop()
    await sql?.end()
    await database?.stop()
    rmSync(work, { recursive: true, force: true })
  })

  const sound = { balanced: true, broken_rules: [] }
  const admin = (gateway: Gateway) => ({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: secrets.SVC_ADMIN_TOKENS })
  const asAdmin = ({ url }: Gateway) => ({ url, adminToken: secrets.SVC_ADMIN_TOKENS })
  const ready = (gateway: Gateway, nodeId: string) => waitUntil('the node', isReady(asAdmin(gateway), nodeId))

  /** Clients that ask until they are told to stop, or their gateway ends. */
  function load(gateway: Gateway, key: string) {
    let running = true
    let count = 0
    const client = async () => {
      while (running) {
        const hash = await chat(gateway, key, 'plain', count % 2 === 0).catch(() => null)
        if (hash === null) await turn()
        else answered.add(hash)
        if (hash !== null) count++
      }
    }
    const all = Promise.all(Array.from({ length: clients }, client))
    return {
      more: (wanted: number) => {
        const goal = count + wanted
        return waitUntil('answers', () => count >= goal)
      },
      stop: async () => {
        running = false
        await all
      },
    }
  }

  test('every answer of either gateway is charged once, and the account is exact to the wei', async () => {
    const env = { ...secrets, DATABASE_URL: database.url }
    const first = await old.startGateway(env)
    const anyNode = ['--min-privacy-class', 'public']
    const made = async (name: string) => {
      const { customer_id: id } = await old.json(['customers', 'create', name, ...anyNode], admin(first))
      const issued = await old.json(['keys', 'create', 'k', '--customer', String(id), ...anyNode], admin(first))
      return { id: String(id), key: String(issued.gateway_key) }
    }
    const [owner, ada] = [await made('Owner'), await made('Ada')]
    await old.json(['credits', 'add', ada.id, creditWei.toString(), '--reason', 'paid'], admin(first))
    await old.json(['models', 'set', 'plain', '--prompt-price-wei', '7', '--completion-price-wei', '11'], admin(first))
    const open = ['--visibility', 'public', '--privacy-class', 'public', '--payout-address', `0x${'a1'.repeat(20)}`]
    const added = await old.json(
      ['nodes', 'add', node.url, '--customer', owner.id, '--name', 'n', ...open],
      admin(first),
    )
    await ready(first, String(added.node_id))

    const onOld = load(first, ada.key)
    await onOld.more(100)
    // The new one migrates under the old one's load.
    const second = await today.startGateway(env)
    await ready(second, String(added.node_id))
    const onToday = load(second, ada.key)
    await Promise.all([onOld.more(100), onToday.more(100)])
    // Each builds batches of what both have charged, which moves shares out of groups.
    for (const [checkout, gateway] of [
      [old, first],
      [today, second],
      [old, first],
    ] as const) {
      await checkout.json(['payouts', 'create'], admin(gateway))
      await Promise.all([onOld.more(30), onToday.more(30)])
    }
    // While charges come the sums alone: the check of every row follows when they have ended.
    for (const gateway of [first, second])
      expect(await adminGet(asAdmin(gateway), '/v1/admin/ledger/proof')).toMatchObject(sound)
    // As if the hour after the upgrade were over too early: the old one cannot spend what today's leases.
    await sql`update money_lease_start set begins_at = 'epoch'`
    await waitUntil('a charge under a lease', async () => {
      const leased = await sql`select 1 from charge_groups where reserve_seq is not null limit 1`
      return leased.length > 0
    })
    await Promise.all([onOld.more(100), onToday.more(100)])
    await onOld.stop()
    await first.stop()
    await onToday.more(100)
    await onToday.stop()

    const debits = await sql<{ hash: string; wei: string }[]>`select receipt_hash as hash, amount_wei::text as wei
      from ledger_entries where kind = 'debit' and customer_id = ${ada.id}`
    const charged = new Set(debits.map(({ hash }) => hash))
    expect(charged.size).toBe(debits.length)
    expect([...answered].filter((hash) => !charged.has(hash))).toEqual([])
    const spent = debits.reduce((sum, { wei }) => sum + BigInt(wei), 0n)
    await waitUntil('nothing is reserved', async () => {
      const [row] =
        await sql`select (reserved_wei + leased_wei)::text as wei from customers where customer_id = ${ada.id}`
      return row?.wei === '0'
    })
    const [account] = await sql`select balance_wei::text as wei from customers where customer_id = ${ada.id}`
    expect(account?.wei).toBe((creditWei - spent).toString())
    // Else nothing was put to the test.
    const [seen] = await sql`select (select count(*)::int from charge_groups) as groups,
      (select count(*)::int from charge_groups where shares_moved) as moved,
      (select count(*)::int from ledger_rows where kind = 'debit') as rows`
    console.table([{ ...seen, answered: answered.size, debits: debits.length }])
    expect(Math.min(seen?.groups, seen?.moved, seen?.rows)).toBeGreaterThan(0)
    await waitUntil('the cutoff in the log', async () => {
      const { check } = (await today.json(['audit', 'books'], admin(second))) as {
        check: { unsigned_receipts: unknown }
      }
      return check.unsigned_receipts !== null
    })
    expect(await today.json(['audit', 'books'], admin(second))).toMatchObject({
      ...sound,
      check: { sound: true, faults: [] },
    })
    await second.stop()
  })
})
