import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { product } from '../../../brand.ts'
import type { SubmittedJob } from '../../../client/private-jobs.ts'
import { CliFailure } from '../../frame/failure.ts'

/** What only this computer knows about private jobs: the identities of nodes and the keys that decrypt answers. */
export interface JobBook {
  readonly file: string
  /** null if no job was sent to this node from here. */
  fingerprint(nodeId: string): string | null
  pin(nodeId: string, fingerprint: string): void
  job(jobId: string): SubmittedJob | null
  keep(job: SubmittedJob): void
}

interface Content {
  readonly fingerprints: Readonly<Record<string, string>>
  /** Newest last. */
  readonly jobs: readonly SubmittedJob[]
}

/** How many jobs are kept, so that their answers can be decrypted here. */
const jobsKeptMax = 1_000

export function openJobBook(env: Readonly<Record<string, string | undefined>>): JobBook {
  const file = join(env.HOME ?? homedir(), '.config', product, 'private-jobs.json')
  let content = read(file)
  const write = (next: Content) => {
    content = next
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    const beside = `${file}.${process.pid}`
    writeFileSync(beside, `${JSON.stringify(next, null, 2)}\n`, { mode: 0o600 })
    renameSync(beside, file)
  }
  return {
    file,
    fingerprint: (nodeId) => content.fingerprints[nodeId] ?? null,
    pin: (nodeId, fingerprint) => {
      if (content.fingerprints[nodeId] === fingerprint) return
      write({ ...content, fingerprints: { ...content.fingerprints, [nodeId]: fingerprint } })
    },
    job: (jobId) => content.jobs.findLast((job) => job.jobId === jobId) ?? null,
    keep: (job) => write({ ...content, jobs: [...content.jobs, job].slice(-jobsKeptMax) }),
  }
}

function read(file: string): Content {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch {
    return { fingerprints: {}, jobs: [] }
  }
  try {
    const { fingerprints, jobs } = JSON.parse(text) as Partial<Content>
    return { fingerprints: fingerprints ?? {}, jobs: jobs ?? [] }
  } catch {
    throw new CliFailure(`${file} is damaged: it does not contain a JSON object.`)
  }
}
