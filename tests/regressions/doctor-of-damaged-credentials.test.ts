import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { commandLine } from '../cli/command-line.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: with a credentials file that is damaged `doctor` looked at nothing, and said only that the file is damaged.
 * Cause: it asked the credentials for the gateway's address before it looked at the computer.
 * Fix: an address that the credentials do not say counts as none.
 */
const cli = await fixture(commandLine())

test('§24: doctor looks at the computer although the credentials are damaged', async () => {
  writeFileSync(join(cli.home, '.config/penstock/credentials.json'), '{')
  const { out, err } = await cli.run(['doctor', '--json'], { env: { SVC_HOST: '127.0.0.1', SVC_PORT: '0' } })
  expect(err).toBe('')
  const { checks } = JSON.parse(out) as { checks: { check: string; says: string }[] }
  expect(checks.map(({ check }) => check)).toContain('addresses')
  expect(checks.find(({ check }) => check === 'gateway')?.says).toContain('is damaged')
})
