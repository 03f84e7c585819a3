import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { openPrivateFolder } from '../../src/host/private-files.ts'
import { localKeys, localKeysFile } from '../../src/node/access/local-keys.ts'
import { commandLine } from './command-line.ts'

const cli = commandLine()
const dir = join(cli.home, 'agent')
mkdirSync(dir)
afterAll(() => cli.close())

interface Made {
  readonly key_id: string
  readonly api_key: string
}

test('§12: a key is made, listed without its secret, and revoked, in the folder of the agent', async () => {
  const made = await cli.json<Made>('node', 'keys', 'create', 'my scripts', '--data-dir', dir)
  const agent = localKeys(openPrivateFolder(dir))
  expect(agent.accepts(made.api_key)).toBe(true)
  expect(statSync(join(dir, localKeysFile)).mode & 0o777).toBe(0o600)
  const listed = await cli.run(['node', 'keys', 'list', '--data-dir', dir])
  expect(listed.out).toMatch(/key_\w+ +my scripts +svc_api_\w+ +active/)
  expect(listed.out).not.toContain(made.api_key)
  const revoked = await cli.json('node', 'keys', 'revoke', made.key_id, '--yes', '--data-dir', dir)
  expect(revoked).toMatchObject({ key_id: made.key_id, revoked_at: expect.stringMatching(/Z$/) })
  expect(JSON.stringify(revoked)).not.toContain('sha256')
  expect(agent.accepts(made.api_key)).toBe(false)
})

test('§12: without --json the key is shown once, to be kept', async () => {
  const { code, out } = await cli.run(['node', 'keys', 'create', 'other', '--data-dir', dir])
  expect(code).toBe(0)
  expect(out).toMatch(/Local API key:\n\n {2}svc_api_[0-9A-Za-z]{49}\n/)
})

test('§12: faults are told, and nothing is made where there is no agent', async () => {
  const nowhere = join(cli.home, 'nowhere')
  const absent = await cli.run(['node', 'keys', 'list', '--data-dir', nowhere])
  expect([absent.code, absent.out]).toEqual([1, ''])
  expect(absent.err).toContain('Start the agent first')
  expect(() => statSync(nowhere)).toThrow()
  const unknown = await cli.run(['node', 'keys', 'revoke', 'key_none', '--data-dir', dir])
  expect([unknown.code, unknown.err.includes('This agent has no key key_none')]).toEqual([1, true])
  expect((await cli.run(['node', 'keys', 'create', '', '--data-dir', dir])).code).toBe(2)
  expect((await cli.run(['node', 'keys', 'bogus'])).code).toBe(2)
})
