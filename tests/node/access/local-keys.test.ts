import { afterEach, beforeEach, expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPrivateFolder } from '../../../src/host/private-files.ts'
import {
  loadLocalToken,
  localKeys,
  localKeysFile,
  localKeysMax,
  localTokenFile,
} from '../../../src/node/access/local-keys.ts'
import { isWellFormedToken } from '../../../src/secrets.ts'

let dir = ''
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'penstock-keys-'))
})
afterEach(() => rmSync(dir, { recursive: true }))

test('§12: the local token is made once, and its owner alone can read it', () => {
  const first = loadLocalToken(openPrivateFolder(dir))
  expect(isWellFormedToken(first, 'local')).toBe(true)
  expect(loadLocalToken(openPrivateFolder(dir))).toBe(first)
  chmodSync(join(dir, localTokenFile), 0o644)
  loadLocalToken(openPrivateFolder(dir))
  expect(statSync(join(dir, localTokenFile)).mode & 0o777).toBe(0o600)
})

test('§12: a damaged token file stops the start and is left as it is', () => {
  const folder = openPrivateFolder(dir)
  for (const damage of ['{}', '{"local_token":"svc_local_nonsense"}', 'no json']) {
    writeFileSync(join(dir, localTokenFile), damage)
    expect(() => loadLocalToken(folder)).toThrow(/damaged/)
    expect(readFileSync(join(dir, localTokenFile), 'utf8')).toBe(damage)
  }
})

test('§12: a key is shown once, stored as a hash, and dies when it is revoked', () => {
  const keys = localKeys(openPrivateFolder(dir))
  const made = keys.create('scripts')
  const secret = made?.api_key ?? ''
  expect(isWellFormedToken(secret, 'api')).toBe(true)
  for (const file of readdirSync(dir)) {
    expect(readFileSync(join(dir, file), 'utf8')).not.toContain(secret)
    expect(statSync(join(dir, file)).mode & 0o777).toBe(0o600)
  }
  expect(keys.accepts(secret)).toBe(true)
  expect(JSON.stringify(keys.list())).not.toContain(secret)
  expect(keys.list()).toMatchObject([{ name: 'scripts', display_prefix: secret.slice(0, 16), revoked_at: null }])
  const revoked = keys.revoke(made?.key_id ?? '')
  expect(revoked?.revoked_at).toMatch(/Z$/)
  expect(keys.accepts(secret)).toBe(false)
  expect(keys.revoke(made?.key_id ?? '')).toEqual(revoked)
  expect(keys.revoke('key_none')).toBeNull()
})

test('§12: what one process makes another sees', () => {
  const [agent, commandLine] = [localKeys(openPrivateFolder(dir)), localKeys(openPrivateFolder(dir))]
  const secret = commandLine.create('a')?.api_key ?? ''
  expect(agent.accepts(secret)).toBe(true)
  expect(agent.accepts(`${secret.slice(0, -1)}!`)).toBe(false)
})

test('§12: live keys are bounded; a revoked one makes room', () => {
  const keys = localKeys(openPrivateFolder(dir))
  for (let at = 0; at < localKeysMax; at++) expect(keys.create(`k${at}`)).not.toBeNull()
  expect(keys.create('one more')).toBeNull()
  keys.revoke(keys.list()[0]?.key_id ?? '')
  expect(keys.create('one more')?.name).toBe('one more')
  expect(keys.list()).toHaveLength(localKeysMax + 1)
})

test('§12: a damaged key file is said, not taken for none', () => {
  writeFileSync(join(dir, localKeysFile), '{"keys":[{}]}')
  expect(() => localKeys(openPrivateFolder(dir)).list()).toThrow(/damaged/)
})
