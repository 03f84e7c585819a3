#!/usr/bin/env node
// Starts the program of this package under the Bun that the package depends on. `npx @penstock/penstock` without a command starts a
// gateway; everything else is the command line of Penstock.
import { existsSync, realpathSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bunEnvironment, endBy, fail, run } from './run.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const { resolve } = createRequire(import.meta.url)
const stubBytesMax = 1_000_000
const processors = { x64: 'x64', arm64: 'aarch64' }
const systems = { linux: 'linux', darwin: 'darwin', win32: 'windows' }

const found = (name, ...path) => {
  try {
    const file = join(dirname(resolve(`${name}/package.json`)), ...path)
    return existsSync(file) && statSync(file).size > stubBytesMax ? file : undefined
  } catch {
    return undefined
  }
}

/** Without its install script the `bun` package holds a stub of some hundred bytes; the program is in its platform package. */
function findBun() {
  const platform = `@oven/bun-${systems[process.platform]}-${processors[process.arch]}`
  const program = process.platform === 'win32' ? 'bun.exe' : 'bun'
  return (
    found('bun', 'bin', 'bun.exe') ??
    [platform, `${platform}-baseline`, `${platform}-musl`].map((name) => found(name, 'bin', program)).find(Boolean)
  )
}

/** What belongs to this user, whatever folder the command is run in. */
function dataFolder() {
  const { XDG_DATA_HOME, LOCALAPPDATA } = process.env
  if (process.platform === 'win32')
    return join(LOCALAPPDATA || join(homedir(), 'AppData', 'Local'), 'penstock', 'gateway')
  return join(XDG_DATA_HOME || join(homedir(), '.local', 'share'), 'penstock', 'gateway')
}

const bun = findBun()
if (bun === undefined) fail(`npm has installed no Bun for ${process.platform}-${process.arch}.`)
const program = realpathSync(join(here, '..', 'dist', 'penstock.mjs'))
const words = process.argv.slice(2)
// npm names the command that runs it: `exec` is npx.
const isNpx = process.env.npm_command === 'exec'
const first = words.length === 0 && isNpx ? ['serve'] : words
const { code, signal, error } = await run(
  bun,
  [`--config=${join(here, 'bunfig.toml')}`, '--no-env-file', program, ...first],
  {
    stdio: 'inherit',
    env: {
      ...bunEnvironment(),
      SVC_DATA_DIR: process.env.SVC_DATA_DIR || dataFolder(),
      // By this the program ends when this process is killed (src/host/launcher.ts).
      PENSTOCK_LAUNCHER: `${process.pid} ${program}`,
    },
    // A shell of npx stands between; when that is killed, nothing else would say so.
    parent: isNpx ? process.ppid : null,
  },
)
if (error) fail(`Bun cannot be started (${error.code}).`)
if (signal) await endBy(signal)
process.exit(code ?? 1)
