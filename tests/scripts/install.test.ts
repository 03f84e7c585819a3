import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { removePackages, type SmallCheckout, smallCheckout } from '../support/run/small-checkout.ts'

const node = Bun.which('node')
const names = ['running', '@oven/bun-here', 'settling', 'testing']
const plainGateway = ['running', '@oven/bun-here']

let checkout: SmallCheckout
beforeEach(async () => {
  checkout = await smallCheckout()
})
afterEach(() => checkout.remove())
afterAll(removePackages)

const installed = () => names.filter((name) => checkout.has(name))
const inode = (path: string) => statSync(join(checkout.root, 'node_modules', path)).ino

describe.skipIf(node === null || Bun.which('npm') === null)('the launcher installs', () => {
  test('what running needs for a gateway, all for a program of development, and nothing that is there again', async () => {
    const first = await checkout.launch('src/main.ts')
    expect(first).toMatchObject({ code: 0, text: expect.stringContaining('ran\n') })
    expect(installed()).toEqual(plainGateway)

    // A server that runs on it keeps its files.
    const before = inode('running/package.json')
    expect((await checkout.launch('scripts/test.ts')).code).toBe(0)
    expect(installed()).toEqual(names)
    expect(inode('running/package.json')).toBe(before)

    const again = await checkout.launch('src/main.ts')
    expect(again).toEqual({ code: 0, text: 'ran\n' })
    expect(installed()).toEqual(names)
  })

  test('what was there before, when the lock file asks for more', async () => {
    await checkout.npm('ci')
    const lock = await Bun.file(join(checkout.root, 'package-lock.json')).json()
    const hidden = join(checkout.root, 'node_modules/.package-lock.json')
    // As after a pull: what is installed is of another version than the lock file's.
    const old = await Bun.file(hidden).json()
    old.packages['node_modules/running'].version = '0.9.0'
    writeFileSync(hidden, JSON.stringify(old))
    expect(await checkout.launch('src/main.ts')).toMatchObject({ code: 0, text: expect.stringContaining('Installing') })
    expect(installed()).toEqual(names)
    expect(await Bun.file(join(checkout.root, 'package-lock.json')).json()).toEqual(lock)
  })

  test.each([
    ['in the environment', { SVC_CHAIN_RPC_URL: 'http://127.0.0.1:8545' }, ''],
    ['in .env', {}, 'SVC_PORT=1\nSVC_CHAIN_RPC_URL=http://127.0.0.1:8545\n'],
  ])('what settlement needs where it is set up %s', async (_, env, file) => {
    writeFileSync(join(checkout.root, '.env'), file)
    expect((await checkout.launch('src/main.ts', env)).code).toBe(0)
    expect(installed()).toEqual([...plainGateway, 'settling'])
  })

  test('the same whatever the settings of npm and NODE_ENV', async () => {
    const env = {
      NODE_ENV: 'production',
      npm_config_omit: 'optional',
      npm_config_ignore_scripts: 'true',
      npm_config_legacy_peer_deps: 'true',
    }
    expect((await checkout.launch('src/main.ts', env)).code).toBe(0)
    expect(installed()).toEqual(plainGateway)
    expect((await checkout.launch('scripts/test.ts', env)).code).toBe(0)
    expect(installed()).toEqual(names)
  })

  test('for two starts at once one after the other', async () => {
    const both = await Promise.all([checkout.launch('src/main.ts'), checkout.launch('scripts/test.ts')])
    for (const one of both) expect(one).toMatchObject({ code: 0, text: expect.stringContaining('ran\n') })
    expect(installed()).toEqual(names)
    expect(existsSync(join(checkout.root, '.run/installing'))).toBe(false)
  })

  test('nothing for a lock file that is newer and says the same', async () => {
    await checkout.npm('ci')
    utimesSync(join(checkout.root, 'package-lock.json'), new Date(), new Date(Date.now() + 60_000))
    const withoutNpm = dirname(node ?? '/')
    writeFileSync(join(checkout.root, 'npm'), '#!/bin/sh\nexit 9\n', { mode: 0o755 })
    const start = await checkout.launch('src/main.ts', { PATH: `${checkout.root}:${withoutNpm}` })
    expect(start).toEqual({ code: 0, text: 'ran\n' })
  })
})

describe.skipIf(node === null || Bun.which('npm') === null)('the launcher patches', () => {
  const whole = "// first\n// why\nmodule.exports = 'whole'\n// last\n"

  test('what is installed, and again what was installed by hand', async () => {
    await checkout.launch('src/main.ts')
    expect(checkout.read('running/index.js')).toBe(whole)
    const before = inode('running/index.js')
    await checkout.launch('src/main.ts')
    expect(inode('running/index.js')).toBe(before)
    await checkout.npm('ci')
    expect(checkout.read('running/index.js')).not.toBe(whole)
    await checkout.launch('src/main.ts')
    expect(checkout.read('running/index.js')).toBe(whole)
  })

  test('what an earlier patch has changed as if it had not', async () => {
    await checkout.launch('src/main.ts')
    const file = join(checkout.root, 'patches/running@1.0.0.patch')
    writeFileSync(file, readFileSync(file, 'utf8').replace('+// why\n', '+// because\n'))
    expect((await checkout.launch('src/main.ts')).code).toBe(0)
    expect(checkout.read('running/index.js')).toBe(whole.replace('why', 'because'))
  })

  test('nothing that the patch was not made for, and says so', async () => {
    await checkout.launch('src/main.ts')
    const folder = join(checkout.root, 'node_modules/running')
    rmSync(join(folder, 'index.js.orig'))
    writeFileSync(join(folder, 'index.js'), "// first\nmodule.exports = 'new'\n// last\n")
    expect(await checkout.launch('src/main.ts')).toMatchObject({
      code: 1,
      text: expect.stringContaining('patches/running@1.0.0.patch does not fit'),
    })
    expect(checkout.read('running/index.js')).toContain("'new'")
    writeFileSync(join(folder, 'package.json'), '{"name":"running","version":"1.0.1"}')
    expect(await checkout.launch('src/main.ts')).toMatchObject({
      code: 1,
      text: expect.stringContaining('not for the installed version 1.0.1'),
    })
  })
})
