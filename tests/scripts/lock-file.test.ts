import { expect, test } from 'bun:test'

interface Entry {
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

/**
 * `npm ci` refuses a lock file that lacks an optional package of another platform, and `npm install` leaves those out that
 * its registry does not have: they are then written by hand, without an integrity, which the registry gives at installation.
 */
test('the lock file names the optional packages of all platforms', async () => {
  const lock = (await Bun.file(new URL('../../package-lock.json', import.meta.url)).json()) as {
    readonly packages: Readonly<Record<string, Entry>>
  }
  const missing = Object.entries(lock.packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter((name) => {
      const nested = path === '' ? `node_modules/${name}` : `${path}/node_modules/${name}`
      return !(nested in lock.packages) && !(`node_modules/${name}` in lock.packages)
    }),
  )
  expect(missing).toEqual([])
})
