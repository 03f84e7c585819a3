import { spawn } from 'node:child_process'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EmbeddedDatabaseError, startEmbedded } from '../../../src/db/embedded/embedded.ts'

/**
 * The PostgreSQL of a run that nobody gave one (`bun test` by hand): one for all of its processes, until the run ends.
 * Usage: bun test-server.ts OWNER, which writes the server's URL to stdout. OWNER is the process id of the run.
 *
 * A program that starts itself once more: `bun test` ends the child processes of a test that timed out, and the second
 * one is nobody's child.
 */
const [owner = '', detached] = process.argv.slice(2)
const options = {
  dataDir: join(tmpdir(), `penstock-test-${owner}`),
  log: { info: () => {}, warn: () => {} },
  connectionsMax: 200,
  durable: false,
  preferNobody: true,
}
/** Says that the server is ready. */
const addressFile = join(options.dataDir, 'test-address')
const reachWithinMs = 60_000
const reachPollMs = 50
const ownerPollMs = 250

function ownerRuns(): boolean {
  try {
    return process.kill(Number(owner), 0)
  } catch {
    return false
  }
}

async function serve(): Promise<void> {
  const server = await startEmbedded(options)
  process.stdout.write(`${server.url}\n`)
  writeFileSync(`${addressFile}.part`, server.url)
  renameSync(`${addressFile}.part`, addressFile)
  while (ownerRuns()) await Bun.sleep(ownerPollMs)
  await server.stop()
  rmSync(options.dataDir, { recursive: true, force: true })
}

/** Another process of the run was first: its server is ours, too. */
async function reach(): Promise<void> {
  const until = performance.now() + reachWithinMs
  while (!existsSync(addressFile)) {
    if (performance.now() > until) throw new Error('the test server of this run does not start')
    await Bun.sleep(reachPollMs)
  }
  process.stdout.write(`${readFileSync(addressFile, 'utf8')}\n`)
}

if (detached === undefined) {
  const program = spawn(process.execPath, [import.meta.path, owner, 'detached'], {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  program.stdout.once('data', (line) => process.stdout.write(line, () => process.exit(0)))
  program.once('exit', (code) => process.exit(code ?? 1))
} else {
  await serve().catch((error: unknown) => {
    if (error instanceof EmbeddedDatabaseError) return reach()
    throw error
  })
  process.exit(0)
}
