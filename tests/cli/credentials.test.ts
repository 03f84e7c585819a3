import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type CredentialPlaces, findConnection, usualPlaces } from '../../src/cli/frame/credentials.ts'
import { CliFailure } from '../../src/cli/frame/failure.ts'
import { checkoutRoot } from '../../src/host/program-files.ts'

const scratch = mkdtempSync(join(tmpdir(), 'penstock-credentials-'))
afterAll(() => rmSync(scratch, { recursive: true }))
let made = 0

/** A home, a working folder and a checkout of their own; `files`: path below them → content. */
function places(env: CredentialPlaces['env'], files: Readonly<Record<string, object | string>> = {}): CredentialPlaces {
  const folder = join(scratch, String(made++))
  for (const [path, content] of Object.entries(files)) {
    const file = join(folder, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
  }
  return { env, home: join(folder, 'home'), cwd: join(folder, 'cwd'), root: join(folder, 'root') }
}

const inHome = 'home/.config/penstock/credentials.json'
const ofHome = { base_url: 'https://home.example', admin_token: 'home-admin', gateway_key: 'home-key' }
const ofData = {
  base_url: 'http://127.0.0.1:7070',
  admin_token: 'data-admin',
  gateway_key: 'data-key',
  customer_id: 'local',
}

test('§24: the environment comes first, then the home folder, then the data folder', () => {
  const files = { [inHome]: ofHome, 'cwd/.data/credentials.json': ofData }
  const env = { SVC_BASE_URL: 'https://env.example/', SVC_ADMIN_TOKEN: 'env-admin', SVC_GATEWAY_KEY: 'env-key' }
  expect(findConnection(places(env, files))).toMatchObject({
    baseUrl: 'https://env.example',
    adminToken: 'env-admin',
    gatewayKey: 'env-key',
  })
  expect(findConnection(places({}, files))).toMatchObject({
    baseUrl: 'https://home.example',
    adminToken: 'home-admin',
    gatewayKey: 'home-key',
  })
  expect(findConnection(places({}, { 'cwd/.data/credentials.json': ofData }))).toMatchObject({
    baseUrl: 'http://127.0.0.1:7070',
    adminToken: 'data-admin',
    gatewayKey: 'data-key',
    customerId: 'local',
  })
})

test('.data is looked for in the working folder and in the checkout', () => {
  const both = {
    'root/.data/credentials.json': ofData,
    'cwd/.data/credentials.json': { ...ofData, gateway_key: 'cwd' },
  }
  expect(findConnection(places({}, both)).gatewayKey).toBe('cwd')
  expect(findConnection(places({}, { 'root/.data/credentials.json': ofData })).gatewayKey).toBe('data-key')
  expect(findConnection(places({ SVC_DATA_DIR: 'x' }, { 'root/x/credentials.json': ofData })).gatewayKey).toBe(
    'data-key',
  )
  const absolute = places({}, { 'elsewhere/credentials.json': ofData })
  const env = { SVC_DATA_DIR: join(dirname(absolute.cwd), 'elsewhere') }
  expect(findConnection({ ...absolute, env }).adminToken).toBe('data-admin')
})

test('without a checkout, as in the built program, the working folder and the home folder are all', () => {
  const given = { ...places({}, { 'root/.data/credentials.json': ofData }), root: null }
  expect(findConnection(given)).toMatchObject({
    adminToken: null,
    lookedAt: [join(given.home, '.config/penstock/credentials.json'), join(given.cwd, '.data/credentials.json')],
  })
  expect(usualPlaces({}).root).toBe(join(import.meta.dir, '../..'))
  expect(checkoutRoot('penstock')).toBeNull()
})

test('a token goes to no other gateway than the one it was made for', () => {
  const files = { [inHome]: ofHome, 'cwd/.data/credentials.json': ofData }
  const elsewhere = findConnection(places({ SVC_BASE_URL: 'https://other.example' }, files))
  expect(elsewhere).toMatchObject({ adminToken: null, gatewayKey: null, customerId: null })
  const local = findConnection(places({ SVC_BASE_URL: 'http://localhost:7071' }, files))
  expect(local).toMatchObject({ adminToken: 'data-admin', gatewayKey: 'data-key' })
  const otherPort = findConnection(places({ SVC_BASE_URL: 'https://home.example:8443' }, files))
  expect(otherPort.adminToken).toBeNull()
})

test('a file with only a lower role is used for it', () => {
  const viewer = { base_url: 'https://home.example', viewer_token: 'viewer' }
  expect(findConnection(places({}, { [inHome]: viewer })).adminToken).toBe('viewer')
})

test('the base URL of an OpenAI client is understood', () => {
  expect(findConnection(places({ SVC_BASE_URL: 'http://box:7070/v1/api/' })).baseUrl).toBe('http://box:7070')
  expect(findConnection(places({ SVC_BASE_URL: 'https://box/penstock/v1' })).baseUrl).toBe('https://box/penstock')
})

test('without anything the usual address is taken and no token', () => {
  const found = findConnection(places({}))
  expect(found).toMatchObject({ baseUrl: 'http://127.0.0.1:7070', adminToken: null, gatewayKey: null })
  expect(found.lookedAt).toHaveLength(3)
})

test.each([
  ['a damaged file', {}, { [inHome]: '{"admin_token":"s3cret' }],
  ['a list', {}, { [inHome]: '[]' }],
  ['a base URL that is none', { SVC_BASE_URL: 'box:7070' }, {}],
  ['a base URL of another kind', { SVC_BASE_URL: 'ftp://box' }, {}],
])('%s is told without its content', (_, env, files) => {
  let message = ''
  try {
    findConnection(places(env, files))
  } catch (error) {
    expect(error).toBeInstanceOf(CliFailure)
    message = error instanceof Error ? error.message : ''
  }
  expect(message).not.toBe('')
  expect(message).not.toContain('s3cret')
})

test("§16: a second admin's token comes from the environment, never from a file", () => {
  const files = { [inHome]: { ...ofHome, approver_token: 'file-approver' } }
  expect(findConnection(places({}, files)).approverToken).toBeNull()
  expect(findConnection(places({ SVC_APPROVER_TOKEN: ' second ' }, files)).approverToken).toBe('second')
})
