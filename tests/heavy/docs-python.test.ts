import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { pythonWith } from '../support/clients/python.ts'

const packages = ['openai==3.54.0', 'langchain-openai==1.6.7']
const python = await pythonWith(packages)
if (python === null) console.log(`skipped: ${packages.join(', ')} cannot be installed from PyPI`)
/** Each example starts Python and loads a client: seconds on a busy machine. */
const runMs = 900_000

test.skipIf(python === null)(
  'the Python examples of the documents run, every one',
  async () => {
    const root = join(import.meta.dir, '..', '..')
    const child = Bun.spawn([process.execPath, 'scripts/test.ts', 'tests/docs-runnable.test.ts'], {
      cwd: root,
      env: { ...process.env, PENSTOCK_PYTHON: python ?? '' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [out, told] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    await child.exited
    expect({ end: out.trim().split('\n').at(-1), failed: told.match(/^\(fail\).*$/gm) ?? [] }).toEqual({
      end: expect.stringMatching(/^\d+ passed, 0 failed$/),
      failed: [],
    })
  },
  runMs,
)
