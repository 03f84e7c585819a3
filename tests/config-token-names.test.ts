import { expect, test } from 'bun:test'
import { readConfig } from '../src/settings/config.ts'

const [one, two] = ['a'.repeat(64), 'B'.repeat(64)]
const faultsOf = (names: string) => {
  const read = readConfig({ SVC_TOKEN_NAMES: names })
  return 'faults' in read ? read.faults : []
}

test('names of tokens have a form, are told apart, and name each token once', () => {
  expect(faultsOf(`Ada Lovelace=sha256:${one},deploy=1=sha256:${two}`)).toEqual([])
  const form = 'SVC_TOKEN_NAMES must be a list like NAME=sha256:HEX, with the SHA-256 of a token'
  for (const bad of ['Ada', `sha256:${one}`, `Ada=${one}`, 'Ada=svc_admin_x', `Ada=sha256:${one}0`]) {
    expect([bad, faultsOf(bad)]).toEqual([bad, [form]])
  }
  for (const name of ['a\u200bb', '0123456789ab', 'x'.repeat(65)]) {
    expect([
      name,
      faultsOf(`${name}=sha256:${one}`)[0]?.startsWith('Each name of SVC_TOKEN_NAMES must be text'),
    ]).toEqual([name, true])
  }
  const twice = 'SVC_TOKEN_NAMES gives names or tokens twice, or names that look alike'
  expect(faultsOf(`Ada=sha256:${one},АDА=sha256:${two}`)).toEqual([twice])
  expect(faultsOf(`Ada=sha256:${one},Grace=sha256:${one.toUpperCase()}`)).toEqual([twice])
})
