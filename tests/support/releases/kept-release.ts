import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { readHeader } from '../../../src/db/backup/backup-text.ts'
import { loadBackup } from '../../../src/db/backup/restore.ts'
import { connect } from '../../../src/db/client.ts'
import { startEmbedded } from '../../../src/db/embedded/embedded.ts'
import { type Credentials, replaceDataFolder } from '../../../src/host/data-folder.ts'
import { openBackup } from '../../../src/offline/backup-file.ts'
import type { Fields } from './checkout.ts'
import type { ReleaseFacts } from './traffic.ts'

/** What `scripts/release-dump.ts` kept of a release. */
export interface KeptRelease extends ReleaseFacts {
  readonly name: string
  readonly commit: string
  /** Where its gateway listened. */
  readonly url: string
  readonly exports: {
    readonly receipts: readonly (Fields & { readonly receipt_hash: string; readonly receipt: Fields })[]
    readonly payouts: Fields & { readonly proofs: readonly Fields[] }
    /** null: it had no such command. */
    readonly audit: Fields | null
    readonly envelope: Fields | null
    readonly log_keys: readonly string[]
  }
  /** Rows of requests, by the table of their day. */
  readonly requests: Readonly<Record<string, readonly Fields[]>>
  readonly agent_folder: Readonly<Record<string, string>>
}

const repository = resolve(import.meta.dir, '../../..')
const folder = join(repository, 'tests/heavy/releases')
const silent = { info: () => {}, warn: () => {} }
const dayMs = 86_400_000

const backupOf = (name: string) => join(folder, name, 'backup.sql.gz')

export function keptReleases(): readonly KeptRelease[] {
  return readdirSync(folder)
    .sort()
    .map((name) => {
      const kept = Bun.gunzipSync(readFileSync(join(folder, name, 'kept.json.gz')))
      return { name, ...(JSON.parse(Buffer.from(kept).toString()) as Omit<KeptRelease, 'name'>) }
    })
}

/** The secrets of its gateway, by the names of their settings. */
export async function secretsOf({ name }: KeptRelease): Promise<Readonly<Record<string, string>>> {
  const reading = (await openBackup(backupOf(name)))?.read()
  const header = readHeader((await reading?.source.line()) ?? '')
  reading?.close()
  return header.secrets
}

/** Requests are kept for some days: what was then is moved to today. */
async function loadRequests(url: string, { requests }: KeptRelease): Promise<void> {
  const rows = Object.values(requests).flat()
  const newest = Math.max(...rows.map(({ newest }) => Date.parse(String(newest))))
  if (rows.length === 0) return
  const days = Math.max(0, Math.floor((Date.now() - newest) / dayMs))
  const sql = connect(url, { max: 1 })
  try {
    await sql.unsafe(
      "select request_records_keep(now() - interval '3 days', now() + interval '1 day', now() - interval '3 days')",
    )
    await sql.unsafe(`insert into request_groups select (jsonb_populate_record(g, jsonb_build_object(
        'minute', g.minute + interval '${days} days', 'oldest', g.oldest + interval '${days} days',
        'newest', g.newest + interval '${days} days'))).*
      from jsonb_populate_recordset(null::request_groups, $rows$${JSON.stringify(rows)}$rows$::jsonb) g`)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** Makes a data folder as that release left it: its tables, its rows, its secrets. Nothing of today is in it. */
export async function makeDataFolder(release: KeptRelease, dataDir: string): Promise<void> {
  const reading = (await openBackup(backupOf(release.name)))?.read()
  if (reading === undefined) throw new Error(`no backup of ${release.name}`)
  const header = readHeader(await reading.source.line())
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const embedded = await startEmbedded({ dataDir, log: silent })
  try {
    await loadBackup(embedded.url, header, reading.source, { overwrite: false, confirm: reading.confirm })
    await loadRequests(embedded.url, release)
    replaceDataFolder(dataDir, header.secrets, header.credentials as Credentials | null)
  } finally {
    await embedded.stop()
  }
}

/** The agent's folder. The gateway and the model server beside the agent have other ports now. */
export function makeAgentFolder({ url, agent_folder }: KeptRelease, agentDir: string, gateway: string, server: string) {
  mkdirSync(agentDir, { recursive: true, mode: 0o700 })
  const [, served = ''] = /"label": "(http:[^"]+)"/.exec(agent_folder['runtimes.json'] ?? '') ?? []
  for (const [name, text] of Object.entries(agent_folder)) {
    const moved = text.replaceAll(new URL(url).host, new URL(gateway).host).replaceAll(served, server)
    writeFileSync(join(agentDir, name), moved, { mode: 0o600 })
  }
}

/** Whether this repository has the release's history: a shallow clone has not. */
export const hasCode = ({ commit }: KeptRelease): boolean =>
  Bun.spawnSync(['git', '-C', repository, 'cat-file', '-e', `${commit}^{commit}`]).exitCode === 0

const run = (command: readonly string[], cwd: string) => {
  const { exitCode, stderr } = Bun.spawnSync([...command], { cwd, stdout: 'ignore', stderr: 'pipe' })
  if (exitCode !== 0) throw new Error(`${command.slice(0, 3).join(' ')}: ${stderr}`)
}

type Dependencies = Readonly<Record<string, string>>
interface Manifest {
  readonly dependencies: Dependencies
  readonly peerDependencies?: Dependencies
  readonly devDependencies?: Dependencies
}
const manifestOf = (root: string) => JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest

/** Of packages that are there under one version each: a package may be a dependency in a release and one for tests alone today. */
function hasPackagesOf(root: string): boolean {
  const [here, there] = [manifestOf(repository), manifestOf(root)]
  const installed = { ...here.devDependencies, ...here.peerDependencies, ...here.dependencies }
  return Object.entries({ ...there.peerDependencies, ...there.dependencies }).every(
    ([name, version]) => installed[name] === version,
  )
}

/** A release without patches runs with those of today. */
function hasPatchesOf(root: string): boolean {
  const patches = join(root, 'patches')
  if (!existsSync(patches)) return true
  const isHere = (name: string) => {
    const here = join(repository, 'patches', name)
    return existsSync(here) && readFileSync(here, 'utf8') === readFileSync(join(patches, name), 'utf8')
  }
  return readdirSync(patches).every(isHere)
}

/**
 * The release's own code in `root`. Its packages are those of today where it wanted the same with the same patches, else its own, patched
 * as its launcher does: its programs are started without it.
 */
export function makeCheckout({ commit }: KeptRelease, root: string): void {
  mkdirSync(root, { recursive: true })
  run(['sh', '-c', `git -C '${repository}' archive ${commit} | tar -x -C '${root}'`], root)
  const same = hasPackagesOf(root) && hasPatchesOf(root)
  if (same) run(['ln', '-s', join(repository, 'node_modules'), join(root, 'node_modules')], root)
  else {
    run(['npm', 'ci', '--no-audit', '--no-fund'], root)
    const patching = `(await import('./scripts/patches.mjs')).applyPatches(process.cwd())`
    if (existsSync(join(root, 'scripts/patches.mjs'))) run(['node', '--input-type=module', '-e', patching], root)
  }
  if (!existsSync(join(root, 'node_modules/bun'))) throw new Error(`${commit} has no packages`)
}
