import { expect, test } from 'bun:test'
import { dirname, join } from 'node:path'
import { pythonWith } from '../support/clients/python.ts'

/**
 * What the other tests skip where Python lacks the packages: the examples of the documents, and each comparison with programs in Python
 * that share no line with this one.
 */
const packages = ['openai==3.54.0', 'langchain-openai==1.6.7', 'cryptography==50.0.2']
const python = await pythonWith(packages)
if (python === null) console.log(`skipped: ${packages.join(', ')} cannot be installed from PyPI`)
/** Each example starts Python and loads a client: seconds on a busy machine. */
const runMs = 900_000
const root = join(import.meta.dir, '..', '..')
const files = [
  'tests/docs-runnable.test.ts',
  'tests/docs-vectors.test.ts',
  'tests/protocol/sealed/vectors.test.ts',
  'tests/protocol/signing/ed25519-edges.test.ts',
  'tests/protocol/verify/mutations.test.ts',
  'tests/spec/log/outsiders-path.test.ts',
]

test.skipIf(python === null)(
  'with the packages for Python, every example and every vector runs, and none is skipped',
  async () => {
    const path = `${dirname(python ?? '')}:${process.env.PATH ?? ''}`
    const child = Bun.spawn([process.execPath, 'scripts/test.ts', ...files], {
      cwd: root,
      env: { ...process.env, PATH: path, PENSTOCK_PYTHON: python ?? '' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [out, told] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    await child.exited
    const notPassed = told.match(/^\((?:fail|skip)\).*$/gm) ?? []
    expect({ end: out.trim().split('\n').at(-1), notPassed }).toEqual({
      end: expect.stringMatching(/^\d+ passed, 0 failed$/),
      notPassed: [],
    })
    console.log(out.trim().split('\n').at(-1))
  },
  runMs,
)
