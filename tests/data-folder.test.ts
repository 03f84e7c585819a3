import { afterAll, expect, test } from 'bun:test'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Credentials, DataFolderError, openDataFolder } from '../src/host/data-folder.ts'

const scratch = mkdtempSync(join(tmpdir(), 'penstock-folder-'))
afterAll(() => rmSync(scratch, { recursive: true }))

const mode = (path: string) => statSync(path).mode & 0o777
const credentials: Credentials = {
  base_url: 'http://127.0.0.1:7070',
  admin_token: 'a',
  operator_token: 'o',
  viewer_token: 'v',
  customer_id: 'local',
  customer_token: 'c',
  gateway_key: 'g',
}

test('§25: the folder is 0700 and its files 0600, whatever they were before', () => {
  const path = join(scratch, 'modes')
  mkdirSync(path, { mode: 0o755 })
  const folder = openDataFolder(path)
  folder.writeCredentials(credentials)
  chmodSync(join(path, 'secrets.json'), 0o644)
  openDataFolder(path)
  expect([mode(path), mode(join(path, 'secrets.json')), mode(folder.credentialsFile)]).toEqual([0o700, 0o600, 0o600])
})

test('§25: six secrets of 32 random bytes, the same at the next start, none like another', () => {
  const first = openDataFolder(join(scratch, 'secrets')).secrets
  expect(openDataFolder(join(scratch, 'secrets')).secrets).toEqual(first)
  const values = Object.values(first)
  expect(values.map((value) => Buffer.from(value, 'base64url').length)).toEqual([32, 32, 32, 32, 32, 32])
  expect(new Set(values).size).toBe(6)
  expect(openDataFolder(join(scratch, 'others')).secrets.tokenPepper).not.toBe(first.tokenPepper)
})

test('§25: a folder of an earlier version gets the router key it lacks, the same for all who open it, and keeps the rest', () => {
  const path = join(scratch, 'earlier')
  mkdirSync(path)
  const earlier = { token_pepper: 'p', secrets_key: 's', audit_key: 'a' }
  writeFileSync(join(path, 'secrets.json'), JSON.stringify(earlier))
  const first = openDataFolder(path).secrets
  expect(first).toMatchObject({ tokenPepper: 'p', secretsKey: 's', auditKey: 'a' })
  expect(Buffer.from(first.routerKey, 'base64url').length).toBe(32)
  expect(openDataFolder(path).secrets).toEqual(first)
  writeFileSync(join(path, 'secrets.json'), JSON.stringify(earlier))
  expect(openDataFolder(path).secrets).toEqual(first)
})

test('§25: credentials are absent before the first start, then read back; no partial file stays', () => {
  const folder = openDataFolder(join(scratch, 'credentials'))
  expect(folder.readCredentials()).toBeNull()
  folder.writeCredentials(credentials)
  folder.writeCredentials({ ...credentials, gateway_key: 'h' })
  expect(openDataFolder(folder.path).readCredentials()).toEqual({ ...credentials, gateway_key: 'h' })
  expect(readdirSync(folder.path).sort()).toEqual(['credentials.json', 'secrets.json'])
})

test('damaged secrets are refused, named and not replaced', () => {
  const path = join(scratch, 'damaged')
  mkdirSync(path)
  writeFileSync(join(path, 'secrets.json'), '{"token_pepper":"only-this"}')
  expect(() => openDataFolder(path)).toThrow(DataFolderError)
  expect(() => openDataFolder(path)).toThrow(/secrets_key, audit_key/)
  expect(() => openDataFolder(path)).not.toThrow(/only-this/)
  expect(existsSync(join(path, 'secrets.json'))).toBe(true)
})

test('many first starts at once agree on the secrets', async () => {
  const path = join(scratch, 'race')
  const program = `import { openDataFolder } from ${JSON.stringify(join(import.meta.dir, '../src/host/data-folder.ts'))}; console.log(openDataFolder(${JSON.stringify(path)}).secrets.tokenPepper)`
  const outputs = await Promise.all(
    Array.from({ length: 4 }, async () => new Response(Bun.spawn([process.execPath, '-e', program]).stdout).text()),
  )
  expect(new Set(outputs)).toEqual(new Set([`${openDataFolder(path).secrets.tokenPepper}\n`]))
})
