import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { signingKey } from '../../src/protocol/signing/ed25519.ts'
import { readSeed } from '../../src/secrets.ts'
import { Checkout, type Fields } from '../support/releases/checkout.ts'
import {
  hasCode,
  type KeptRelease,
  keptReleases,
  makeAgentFolder,
  makeCheckout,
  makeDataFolder,
  secretsOf,
} from '../support/releases/kept-release.ts'
import { adminGet, chat, isReady, privateJob, type ReleaseGateway } from '../support/releases/traffic.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/*
 * The gate of upgrades: data that the last releases made, under the gateway of today. `scripts/release-dump.ts` adds a
 * release. Its agent and its command line come out of the history of this repository; a clone that lacks the commit skips
 * those tests and names it.
 */
const work = mkdtempSync(join(tmpdir(), 'penstock-upgrade-'))
afterAll(() => rmSync(work, { recursive: true, force: true }))
const here = resolve(import.meta.dir, '../..')
const releases = keptReleases()
let files = 0

/** A file of somebody who has never seen this log before. */
async function verified(today: Checkout, kind: string, content: unknown, ...options: readonly string[]) {
  const home = join(work, `verifier-${files++}`)
  const file = join(work, `file-${files}.json`)
  writeFileSync(file, JSON.stringify(content))
  const told = await today.json(['verify', kind, file, ...options], { HOME: home })
  expect(told).toMatchObject({ valid: true })
  return (told.verdicts as readonly { checks: readonly { name: string; ok: boolean | null }[] }[]).flatMap(
    ({ checks }) => checks,
  )
}

const nodeKeyOf = ({ agent_folder: files }: KeptRelease): string => {
  const { seed_ed25519: seed } = JSON.parse(files['identity.json'] ?? '{}') as Record<string, string>
  return signingKey(readSeed(seed ?? '') ?? new Uint8Array()).publicKey
}
/** Signed by nobody: private jobs from before the gateway kept what the node had signed. */
const unsignedIn = ({ exports }: KeptRelease) =>
  exports.receipts.filter(({ receipt, signature_ed25519: signed }) => receipt.issuer === 'node' && signed === null)

/** `audit books`, once the log has all that the release left. */
async function books(today: Checkout): Promise<Fields> {
  const look = async () => today.json(['audit', 'books'])
  await waitUntil('the cutoff in the log', async () => {
    const { check } = (await look()) as { check: Fields }
    return check.unsigned_receipts !== null
  })
  return look()
}

async function expectSound(today: Checkout, release: KeptRelease): Promise<void> {
  expect(await books(today)).toMatchObject({
    balanced: true,
    broken_rules: [],
    check: { sound: true, faults: [], unsigned_receipts: unsignedIn(release).length },
  })
  await today.command(['audit', 'chain'])
}

/** Exports of every receipt by the gateway of today, to whom they belong. */
async function exportAll(today: Checkout, gateway: ReleaseGateway, { ada, owner, receipts }: KeptRelease) {
  const all: Fields[] = []
  for (const hash of receipts) {
    const body = await today
      .json(['receipts', 'export', hash], today.customer(gateway.url, ada))
      .catch(() => today.json(['receipts', 'export', hash], today.customer(gateway.url, owner)))
    all.push(body)
  }
  return all
}

describe.each(releases.map((release) => [release.name, release] as const))('upgrade from %s', (name, release) => {
  const today = new Checkout(here, join(work, name))
  const old = hasCode(release) ? new Checkout(join(work, `${name}-code`), join(work, `${name}-old`)) : null
  const key = ['--key', nodeKeyOf(release)]
  let gateway: Awaited<ReturnType<Checkout['startGateway']>>
  let logKeys: readonly string[]

  beforeAll(async () => {
    if (old !== null) makeCheckout(release, old.root)
    await makeDataFolder(release, today.dataDir)
    gateway = await today.startGateway()
    const { keys } = (await (await fetch(`${gateway.url}/v1/public/log/keys`)).json()) as { keys: readonly string[] }
    logKeys = keys.flatMap((one) => ['--log-key', one])
  }, 120_000)
  afterAll(() => gateway.stop())

  test('the books have no fault, and receipts from before node signatures are a class of their own', async () => {
    await expectSound(today, release)
  })

  test('what the release exported is valid still', async () => {
    const { receipts, payouts, audit, envelope } = release.exports
    const known = release.exports.log_keys.flatMap((one) => ['--log-key', one])
    expect(receipts.length).toBeGreaterThan(10)
    const provable = receipts.filter((one) => one.log != null || one.signature_ed25519 !== null)
    expect(provable.length).toBeGreaterThan(4)
    for (const one of provable) {
      const log = one.log == null ? ['--without-log'] : known
      const checks = await verified(today, 'receipt', one, ...log, ...key)
      expect(checks.find(({ name }) => name === 'signature')).toMatchObject({ ok: true })
    }
    const [{ merkle_root: root } = {}] = payouts.proofs
    await verified(today, 'payout', payouts, '--root', String(root))
    const { SVC_AUDIT_KEY: auditKey = '' } = await secretsOf(release)
    if (audit !== null) await verified(today, 'audit', audit, '--audit-key', auditKey, ...known)
    if (envelope !== null) await verified(today, 'envelope', envelope, ...key)
  })

  test('every receipt of the release is in the log now, and proves itself', async () => {
    const unsigned = new Set(unsignedIn(release).map(({ receipt_hash: hash }) => hash))
    const all = await exportAll(today, gateway, release)
    expect(all).toHaveLength(release.receipts.length)
    for (const one of all) {
      const checks = await verified(today, 'receipt', one, ...logKeys, ...key)
      const ok = unsigned.has(String(one.receipt_hash)) ? null : true
      expect(checks.find(({ name }) => name === 'signature')).toMatchObject({ ok })
    }
  })

  const ids = Object.values(release.requests).flatMap((rows) => rows.flatMap((row) => row.request_id as string[]))
  // Earlier releases kept none.
  if (ids.length > 0)
    test('requests of the release are listed', async () => {
      const { requests } = (await adminGet(gateway, '/v1/admin/requests?limit=1000')) as {
        requests: readonly { request_id: string }[]
      }
      const listed = new Set(requests.map(({ request_id: id }) => id))
      for (const id of ids) expect(listed).toContain(id)
    })

  const withCode = old === null ? test.skip : test
  const lacking = old === null ? ` (SKIPPED: this clone lacks ${release.commit}; git fetch --unshallow)` : ''

  withCode(`the agent of the release serves chats and private jobs of today${lacking}`, async () => {
    if (old === null) return
    const server = startFakeNode({ models: ['signed'] })
    makeAgentFolder(release, old.agentDir, gateway.url, server.url)
    const agent = await old.startAgent(server.url)
    try {
      expect(agent.nodeId).toBe(release.nodes.agent)
      await waitUntil('the agent', isReady(gateway, agent.nodeId))
      const hashes: string[] = []
      for (const stream of [false, true]) hashes.push(await chat(gateway, release.ada.key, 'signed', stream))
      const job = { nodeId: agent.nodeId, fingerprint: release.fingerprint }
      // By the command line of the release, and by that of today.
      hashes.push(await privateJob(old, gateway, release.owner, job, 'job-of-old-cli'))
      hashes.push(await privateJob(today, gateway, release.owner, job, 'job-of-new-cli'))
      for (const hash of hashes) {
        await waitUntil('the receipt in the log', async () => {
          return (await fetch(`${gateway.url}/v1/public/log/proof?receipt_hash=${hash}`)).ok
        })
      }
      for (const one of await exportAll(today, gateway, { ...release, receipts: hashes })) {
        const checks = await verified(today, 'receipt', one, ...logKeys, ...key)
        expect(checks.find(({ name }) => name === 'signature')).toMatchObject({ ok: true })
      }
    } finally {
      await agent.stop()
      server.stop()
    }
    await expectSound(today, release)
  })

  withCode(`the command line of the release works with the gateway of today${lacking}`, async () => {
    if (old === null) return
    const env = { SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.adminToken }
    expect(await old.json(['status'], env)).toMatchObject({ state: 'ready' })
    const made = await old.json(['customers', 'create', 'Made by the old command'], env)
    const id = String(made.customer_id)
    await old.json(['credits', 'add', id, '1000', '--reason', 'paid'], env)
    const issued = await old.json(['keys', 'create', 'k', '--customer', id], env)
    expect(String(issued.gateway_key)).toStartWith('svc_gateway_')
    for (const command of [
      ['customers', 'show', id],
      ['customers', 'list'],
      ['keys', 'list', '--customer', id],
      ['nodes', 'list'],
      ['nodes', 'show', release.nodes.agent],
      ['models', 'list'],
      ['models', 'set', 'plain', '--description', 'by the old command'],
      ['jobs', 'list'],
      ['payouts', 'list'],
      ['payouts', 'proofs', release.batch],
      ['audit', 'books'],
      ['audit', 'chain'],
    ]) {
      expect([command, await old.json(command, env)]).toEqual([command, expect.any(Object)])
    }
    await expectSound(today, release)
  })

  test('a backup of the upgraded data is signed, and restores with sound books', async () => {
    const file = join(work, `${name}.sql.gz`)
    await today.command(['backup', file])
    const into = { SVC_DATA_DIR: join(work, `${name}-restored`) }
    expect(await today.json(['restore', file, ...logKeys], into)).toMatchObject({
      verified: true,
      books: { sound: true, faults: [], broken_rules: [] },
    })
  })
})

/** Each release with the next: what an operator who never skips one has. */
const steps = releases.flatMap((from, at) => {
  const to = releases[at + 1]
  return to === undefined ? [] : [[from, to] as const]
})
for (const [from, to] of steps) {
  const lacking = hasCode(to) ? '' : ` (SKIPPED: this clone lacks ${to.commit}; git fetch --unshallow)`
  const run = hasCode(to) ? test : test.skip
  run(
    `upgrade from ${from.name} over ${to.name}: what lay unsigned in a log without a cutoff is bounded, too${lacking}`,
    async () => {
      const between = new Checkout(join(work, `${to.name}-between`), join(work, `${from.name}-${to.name}`))
      makeCheckout(to, between.root)
      await makeDataFolder(from, between.dataDir)
      const before = await between.startGateway()
      await waitUntil('the receipts in its log', async () => {
        const last = from.receipts.at(-1)
        return (await fetch(`${before.url}/v1/public/log/proof?receipt_hash=${last}`)).ok
      })
      await before.stop()
      const today = new Checkout(here, between.work)
      const gateway = await today.startGateway()
      try {
        await expectSound(today, from)
        const known = (await (await fetch(`${gateway.url}/v1/public/log/keys`)).json()) as { keys: readonly string[] }
        const unsigned = unsignedIn(from).map(({ receipt_hash: hash }) => hash)
        for (const one of await exportAll(today, gateway, { ...from, receipts: unsigned })) {
          await verified(today, 'receipt', one, '--log-key', known.keys[0] ?? '')
        }
      } finally {
        await gateway.stop()
      }
    },
  )
}
