import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir, userInfo } from 'node:os'
import { join, resolve } from 'node:path'
import { connect } from '../src/db/client.ts'
import { reachEmbedded } from '../src/db/embedded/embedded.ts'
import { Checkout } from '../tests/support/releases/checkout.ts'
import { customerGet, fillRelease, type ReleaseFacts, type ReleaseGateway } from '../tests/support/releases/traffic.ts'
import { waitUntil } from '../tests/support/run/wait-until.ts'

/**
 * Keeps what a release leaves behind, for the test of upgrades (`tests/heavy/upgrade.test.ts`). Usage:
 *
 *     git worktree add --detach /tmp/release COMMIT && (cd /tmp/release && npm ci)
 *     node scripts/bun.mjs scripts/release-dump.ts /tmp/release tests/heavy/releases/NAME
 *
 * It starts the gateway and the agent of that checkout, works them by their own commands and over HTTP, and writes the
 * folder: a backup by the release itself; and the rows that backups leave out, what customers and auditors exported,
 * and the agent's folder. All secrets in it were made for it and open nothing else.
 */
const bytesMax = 300 * 1024

/** What customers and auditors hold, as the release wrote it; null: it has no such command. */
async function exportsOf(release: Checkout, gateway: ReleaseGateway, facts: ReleaseFacts) {
  const help = await release.command(['help'])
  const has = (group: string, name: string) => new RegExp(`^ *${group} .*\\b${name}\\b`, 'm').test(help)
  const { ada, owner } = facts
  const receipts: unknown[] = []
  for (const hash of facts.receipts) {
    const path = `/v1/billing/receipts/${hash}`
    let who = ada
    let body: Awaited<ReturnType<typeof customerGet>> = null
    await waitUntil('the receipt in the log', async () => {
      body = await customerGet(gateway, path, ada)
      who = body === null ? owner : ada
      body ??= await customerGet(gateway, path, owner)
      return body !== null && body.log !== null
    })
    receipts.push(
      has('receipts', 'export')
        ? await release.json(['receipts', 'export', hash], release.customer(gateway.url, who))
        : body,
    )
  }
  const keys = await fetch(`${gateway.url}/v1/public/log/keys`)
  return {
    receipts,
    payouts: await release.json(['payouts', 'proofs', facts.batch]),
    audit: has('audit', 'export') ? await release.json(['audit', 'export']) : null,
    envelope: has('jobs', 'export')
      ? await release.json(['jobs', 'export', 'job-1'], release.customer(gateway.url, owner))
      : null,
    log_keys: keys.ok ? ((await keys.json()) as { keys: readonly string[] }).keys : [],
  }
}

/** Rows of requests, which backups leave out, by their table. */
async function requestRows(dataDir: string) {
  const embedded = await reachEmbedded({ dataDir, log: { info: () => {}, warn: () => {} } })
  const sql = connect(embedded.url, { max: 1 })
  try {
    const tables = await sql<{ name: string }[]>`select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind = 'r' and relname ~ '^request_groups_p[0-9]{8}$'`
    const rows: Record<string, readonly unknown[]> = {}
    for (const { name } of tables) {
      const found = await sql.unsafe<{ row: unknown }[]>(`select to_jsonb(t) as row from public."${name}" t`)
      if (found.length > 0) rows[name] = found.map(({ row }) => row)
    }
    return rows
  } finally {
    await sql.end({ timeout: 5 })
    await embedded.stop()
  }
}

const jsonFiles = (folder: string) =>
  Object.fromEntries(
    readdirSync(folder)
      .filter((name) => name.endsWith('.json'))
      .map((name) => [name, readFileSync(join(folder, name), 'utf8')]),
  )

/** Nothing of this computer may stand in what is kept. */
function checkWords(file: string, words: readonly string[]): void {
  const content = Buffer.from(Bun.gunzipSync(readFileSync(file)))
  const found = words.filter((word) => word.length > 4 && content.includes(word))
  if (found.length > 0) throw new Error(`${file} contains ${found.join(', ')}`)
}

async function makeDump(root: string, folder: string): Promise<string> {
  const work = mkdtempSync(join(tmpdir(), 'penstock-release-'))
  const release = new Checkout(root, work)
  mkdirSync(folder, { recursive: true })
  const [backup, kept] = [join(folder, 'backup.sql.gz'), join(folder, 'kept.json.gz')]
  try {
    const gateway = await release.startGateway()
    try {
      const { url } = gateway
      const filled = await fillRelease(release, gateway, async (facts) => {
        // Requests are written a little after their answers.
        await release.command(['backup', backup, '--overwrite'])
        return { url, ...facts, exports: await exportsOf(release, gateway, facts) }
      })
      await release.command(['backup', backup, '--overwrite'])
      await gateway.stop()
      const commit = Bun.spawnSync(['git', '-C', root, 'rev-parse', 'HEAD']).stdout.toString().trim()
      const requests = await requestRows(release.dataDir)
      const all = { commit, ...filled, requests, agent_folder: jsonFiles(release.agentDir) }
      writeFileSync(kept, Bun.gzipSync(Buffer.from(JSON.stringify(all)), { level: 9 }))
    } finally {
      await gateway.stop()
    }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
  for (const file of [backup, kept]) checkWords(file, [hostname(), userInfo().homedir, root, work])
  const bytes = statSync(backup).size + statSync(kept).size
  if (bytes > bytesMax) throw new Error(`${bytes} bytes are more than ${bytesMax}`)
  return `${folder}: ${bytes} bytes`
}

const [root, folder] = process.argv.slice(2).map((path) => resolve(path))
if (root === undefined || folder === undefined || !existsSync(join(root, 'src/cli/main.ts'))) {
  console.error('Usage: node scripts/bun.mjs scripts/release-dump.ts CHECKOUT FOLDER')
  process.exit(2)
}
console.log(await makeDump(root, folder))
