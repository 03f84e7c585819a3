import { join } from 'node:path'
import { plugin } from 'bun'
import { applyPatches } from '../../../scripts/patches.mjs'

// For who runs `bun test` himself: nothing else of ours has run before it.
applyPatches(join(import.meta.dir, '../../..'))

/** How long a test may take that says nothing else. */
const timeoutMs = Number(process.env.PENSTOCK_TEST_TIMEOUT_MS ?? 60_000)
// Bun forgets what a preload says of it after the first file, and takes no such setting from bunfig.toml.
const limit = `import { setDefaultTimeout as limitTests } from 'bun:test'; limitTests(${timeoutMs});`
plugin({
  name: 'limited-tests',
  setup(build) {
    build.onLoad({ filter: /\.test\.ts$/ }, async ({ path }) => ({
      contents: `${limit} ${await Bun.file(path).text()}`,
      loader: 'ts',
    }))
  },
})

// Tests of one process share its environment: none of them may depend on what the shell that runs them has set.
for (const name of Object.keys(process.env)) {
  if (name.startsWith('SVC_') || name === 'DATABASE_URL') delete process.env[name]
}
