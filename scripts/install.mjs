// Brings node_modules in line with package-lock.json, as far as the program that is to start needs it:
// docs/decisions/0016-installed-packages.md.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { endBy, fail, run } from './run.mjs'

/** npm's names of the packages that a plain gateway runs without. */
const groups = ['dev', 'peer']
const turnPollMs = 200

/** npm writes it at the end of an install. */
const installedFile = (root) => join(root, 'node_modules', '.package-lock.json')
const packagesIn = (file) => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).packages : null)
const belongsTo = (group, entry) => entry[group] === true || (group === 'dev' && entry.devOptional === true)

/** Settlement is set up in the environment, or in the file that Bun reads into it. */
function settles(root) {
  const file = join(root, '.env')
  if (process.env.SVC_CHAIN_RPC_URL) return true
  return existsSync(file) && /^\s*(?:export\s+)?SVC_CHAIN_RPC_URL\s*=\s*\S/m.test(readFileSync(file, 'utf8'))
}

/** What lies in `src` runs; every other program is for development. */
function groupsFor(root, script) {
  if (!script.startsWith('src/')) return groups
  return settles(root) ? ['peer'] : []
}

/** Whether the lock file's packages are installed in its versions: all of `kept`, and all that belong to no group. */
function isCurrent(root, kept) {
  const installed = packagesIn(installedFile(root))
  if (installed === null) return false
  return Object.entries(packagesIn(join(root, 'package-lock.json')) ?? {}).every(
    ([path, entry]) =>
      path === '' ||
      // May be for another platform.
      entry.optional === true ||
      groups.some((group) => belongsTo(group, entry) && !kept.includes(group)) ||
      installed[path]?.version === entry.version,
  )
}

/** What somebody has installed stays: a server may be running on it. */
function withInstalled(root, kept) {
  const entries = Object.values(packagesIn(installedFile(root)) ?? {})
  return groups.filter((group) => kept.includes(group) || entries.some((entry) => entry[group] === true))
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** One install at a time: two of them in one folder break each other. False when another has done the work meanwhile. */
async function takeTurn(turn, isDone) {
  mkdirSync(dirname(turn), { recursive: true })
  for (;;) {
    try {
      writeFileSync(turn, String(process.pid), { flag: 'wx' })
      return true
    } catch (error) {
      if (error.code !== 'EEXIST') fail(`${turn} cannot be written (${error.code}).`)
    }
    const holder = existsSync(turn) ? Number(readFileSync(turn, 'utf8')) : 0
    if (holder > 0 && !isAlive(holder)) rmSync(turn, { force: true })
    await delay(turnPollMs)
    if (!existsSync(turn) && isDone()) return false
  }
}

function runNpm(root, kept) {
  const args = [
    // `npm ci` empties node_modules, also under a server that runs: only for the first install.
    existsSync(installedFile(root)) ? 'install' : 'ci',
    // Said here, or NODE_ENV and the settings of whoever installs decide. Bun and PostgreSQL are optional to npm.
    '--include=optional',
    ...groups.map((group) => (kept.includes(group) ? `--include=${group}` : `--omit=${group}`)),
    '--legacy-peer-deps=false',
    ...['--no-audit', '--no-fund', '--no-save', '--loglevel=error'],
  ]
  const cli = process.env.npm_execpath ?? ''
  const [command, first] = /npm-cli\.c?js$/.test(cli) ? [process.execPath, [cli]] : ['npm', []]
  // stdout belongs to the program that follows.
  return run(command, [...first, ...args], { cwd: root, stdio: ['ignore', 2, 2] })
}

/** Installs what `script` needs and is not there. Ends this process when that fails. */
export async function install(root, script) {
  const wanted = groupsFor(root, script)
  const isDone = () => isCurrent(root, wanted)
  if (isDone()) return
  process.stderr.write('Installing the packages of package-lock.json (once) …\n')
  /** Holds the process id of whoever installs now. */
  const turn = join(root, '.run', 'installing')
  if (!(await takeTurn(turn, isDone))) return
  const giveTurn = () => rmSync(turn, { force: true })
  process.on('exit', giveTurn)
  const { code, signal, error } = await runNpm(root, withInstalled(root, wanted))
  giveTurn()
  if (error) fail(`npm cannot be run (${error.code}). Install the packages by hand: npm ci`)
  if (signal) await endBy(signal)
  if (code !== 0) fail('npm could not install the packages; its message is above.', code)
  process.off('exit', giveTurn)
}
