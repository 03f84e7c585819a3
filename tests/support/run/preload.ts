import { join, resolve } from 'node:path'
import { plugin } from 'bun'
import { applyPatches } from '../../../scripts/patches.mjs'
import { testLimitMs } from './limits.ts'

const root = resolve(import.meta.dir, '../../..')
// For who runs `bun test` himself: nothing else of ours has run before it.
applyPatches(root)

// Bun forgets what a preload says of the limit after the first file, and takes no such setting from bunfig.toml.
const limit = `import { setDefaultTimeout as limitTests } from 'bun:test'; limitTests(${testLimitMs});`
const namedHooks = join(import.meta.dir, 'named-hooks.ts')
const testFiles = new RegExp(`^${RegExp.escape(join(root, 'tests'))}/.*\\.ts$|\\.test\\.ts$`)

plugin({
  name: 'limited-tests',
  setup(build) {
    build.onLoad({ filter: testFiles }, async ({ path }) => {
      const source = await Bun.file(path).text()
      // All on its first line: the numbers of the lines stay.
      const named =
        path === namedHooks ? source : source.replace(/(?<=^(?:import .*|\}) from )'bun:test'$/gm, `'${namedHooks}'`)
      return { contents: path.endsWith('.test.ts') ? `${limit} ${named}` : named, loader: 'ts' }
    })
  },
})

// Tests of one process share its environment: none of them may depend on what the shell that runs them has set.
for (const name of Object.keys(process.env)) {
  if (name.startsWith('SVC_') || name === 'DATABASE_URL') delete process.env[name]
}
