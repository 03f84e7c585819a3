import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { connect } from '../src/db/client.ts'
import { startEmbedded } from '../src/db/embedded/embedded.ts'
import { testLimitMs } from '../tests/support/run/limits.ts'
import { files as longestTests } from '../tests/support/run/longest-tests.json'
import { nameHooks } from './named-failures.ts'
import { makeTestFolder } from './test-folder.ts'
import { writeOrder } from './test-order.ts'

/**
 * Runs the tests: all of `tests/` but `tests/heavy`, with `--heavy` those, or the files and folders named as arguments, on
 * one PostgreSQL server made for the run. The last line is `N passed, N failed`; the exit code is 0 only if at least one test ran and
 * none failed.
 */
const root = resolve(import.meta.dir, '..')
const heavyFolder = 'tests/heavy/'
const heavyTestTimeoutMs = 600_000
/** A test waits for half of its time: five at once keep two cores busy, and seven take as long. */
const testProcesses = 5
/** A process imports the gateway once for all of its files: imported for each file, it takes a fifth of the processor time. */
const paced = [`--parallel=${testProcesses}`, '--no-isolate']
const tailCharsMax = 64 * 1024

function testFiles(paths: readonly string[]): string[] {
  const all = [...new Bun.Glob('tests/**/*.test.ts').scanSync({ cwd: root })].sort()
  if (paths.length === 0) return all.filter((file) => !file.startsWith(heavyFolder))
  const wanted = paths.map((path) => relative(root, resolve(path)))
  return all.filter((file) => wanted.some((path) => file === path || file.startsWith(`${path}/`)))
}

/** Passes the stream on line by line, its failed hooks with their names, and returns its end. */
async function tee(stream: ReadableStream<Uint8Array>): Promise<string> {
  const [decoder, named] = [new TextDecoder(), nameHooks()]
  let [tail, line] = ['', '']
  for await (const chunk of stream) {
    const lines = (line + decoder.decode(chunk, { stream: true })).split('\n')
    line = lines.pop() ?? ''
    for (const each of lines) process.stderr.write(`${named(each)}\n`)
    tail = `${tail}${lines.map((each) => `${each}\n`).join('')}`.slice(-tailCharsMax)
  }
  process.stderr.write(named(line))
  return tail + line
}

/** Bun's closing lines are ` 15 pass`, ` 1 skip`, ` 1 todo`, ` 0 fail`, ` 1 error`; absent where zero, except the first. */
function count(output: string, word: string): number | null {
  const plain = output.replaceAll(new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`, 'g'), '')
  const found = [...plain.matchAll(new RegExp(`^ *(\\d+) ${word}s?$`, 'gm'))].at(-1)
  return found === undefined ? null : Number(found[1])
}

/** Half a millisecond of each connection goes into a password that is hard to guess, and the tests open ten thousand. */
async function shortenHandshakes(url: string): Promise<void> {
  const { username, password } = new URL(url)
  const sql = connect(url, { max: 1 })
  await sql`set scram_iterations = 1`
  await sql.unsafe(`alter role ${username} password '${password}'`)
  await sql.end()
}

async function runTests(files: readonly string[], databaseUrl: string, folder: string): Promise<number> {
  const heavy = files.some((file) => file.startsWith(heavyFolder))
  // The folders that bunfig.toml leaves out are left out even when they are named.
  const pace = heavy
    ? ['--path-ignore-patterns=none', '--isolate']
    : [...paced, `--timings=${writeOrder(folder, files, longestTests)}`]
  if (!heavy) await shortenHandshakes(databaseUrl)
  const timeoutMs = heavy ? heavyTestTimeoutMs : testLimitMs
  const child = Bun.spawn([process.execPath, 'test', ...pace, ...files.map((file) => `./${file}`)], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'pipe'],
    env: {
      ...process.env,
      PENSTOCK_TEST_DATABASE_URL: databaseUrl,
      PENSTOCK_TEST_TIMEOUT_MS: String(timeoutMs),
      // Heavy tests measure, on the disk that a gateway has and with the code that runs there. What is compiled best takes longest to
      // compile, and most processes of the others end before that pays: a tenth of the processor time.
      ...(heavy ? {} : { TMPDIR: folder, PENSTOCK_TEST_FOLDER: folder, BUN_JSC_useFTLJIT: '0' }),
    },
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
  const output = await tee(child.stderr)
  const code = await child.exited
  const passed = count(output, 'pass') ?? 0
  // A file that cannot be loaded counts once as a failure; a run that ended without its closing lines is one too.
  const failed = Math.max(count(output, 'fail') ?? 1, code === 0 ? 0 : 1)
  const skipped = (count(output, 'skip') ?? 0) + (count(output, 'todo') ?? 0)
  const line = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
  process.stdout.write(`${line}\n`)
  return failed === 0 && passed > 0 ? 0 : 1
}

const words = process.argv.slice(2)
const named = words.filter((word) => word !== '--heavy')
const args = named.length === 0 && words.length > 0 ? [heavyFolder] : named
const absent = args.find(
  (path) => !existsSync(resolve(path)) || !(statSync(resolve(path)).isFile() || statSync(resolve(path)).isDirectory()),
)
const files = testFiles(args)
if (absent !== undefined || files.length === 0) {
  process.stderr.write(`${absent ?? 'No test'} not found\n0 passed, 0 failed\n`)
  process.exit(1)
}
const folder = makeTestFolder()
const scratch = join(folder, 't')
mkdirSync(scratch)
const server = await startEmbedded({
  dataDir: join(folder, 's'),
  log: { info: () => {}, warn: () => {} },
  connectionsMax: 200,
  durable: false,
  preferNobody: true,
})
let code = 1
try {
  code = await runTests(files, server.url, scratch)
} finally {
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
}
process.exit(code)
