import { writeFileSync } from 'node:fs'
import type { JobOutcome, JobProgress, SubmittedJob } from '../../../client/private-jobs.ts'
import { action, type Verb } from '../../frame/action.ts'
import { exitCodes, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import { printable } from '../../frame/terminal.ts'
import { openJobBook } from './job-book.ts'
import { clientOf, explained, jobFromHere } from './job-client.ts'
import { exported } from './job-export.ts'

const fingerprintPattern = /^SHA256:[A-Za-z0-9_-]{43}$/
const outOption = {
  out: { kind: 'text', value: 'FILE', about: 'Save the answer in this file, which only you can read' },
} as const

/** The pinned identity of the node. A given one is what the person has read at the node. */
async function fingerprintOf(session: Session, nodeId: string, given: string | undefined): Promise<string> {
  if (given !== undefined && !fingerprintPattern.test(given)) {
    throw new UsageFault('--fingerprint must be SHA256: and 43 characters')
  }
  const fingerprint = given ?? openJobBook(session.env).fingerprint(nodeId)
  if (fingerprint !== null) return fingerprint
  // A node that the gateway refuses needs no fingerprint: the refusal says more.
  await explained(clientOf(session).nodeKeys(nodeId))
  throw new UsageFault(
    'This is the first job for this node from here. Give --fingerprint SHA256:…, as the node prints it.',
  )
}

async function promptOf(session: Session, words: readonly string[]): Promise<string> {
  const prompt = words.length > 0 && words[0] !== '-' ? words.join(' ') : (await session.terminal.readAll()).trimEnd()
  if (prompt.trim() === '') throw new UsageFault('There is no prompt. Give one after the model, or pipe one in.')
  return prompt
}

interface Ended {
  readonly outcome: JobOutcome
  readonly webhook: JobProgress['webhook']
}

async function follow(session: Session, job: SubmittedJob, quiet: boolean): Promise<Ended> {
  let webhook: JobProgress['webhook'] = null
  const onProgress = (progress: JobProgress) => {
    webhook = progress.webhook
    if (!quiet) session.terminal.err(`${job.jobId}  ${progress.status}\n`)
  }
  const outcome = await explained(clientOf(session).wait(job, { onProgress }))
  return { outcome, webhook }
}

const idsOf = ({ jobId, commandId }: SubmittedJob) => ({ job_id: jobId, command_id: commandId })

/** The outcome with the names of the wire. */
const outcomeView = (outcome: JobOutcome) =>
  outcome.status === 'completed'
    ? { status: outcome.status, answer: outcome.answer, receipt_hash: outcome.receiptHash }
    : { status: outcome.status, error_code: outcome.code }

function webhookLine({ status, attempts, last_error: error }: NonNullable<JobProgress['webhook']>): string {
  const line = `Webhook  ${status ?? 'not due yet'}, ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`
  return error === null ? line : `${line}, last error ${error}`
}

const contentOf = (answer: unknown): string => {
  const { choices } = (answer ?? {}) as { readonly choices?: readonly { readonly message?: { content?: unknown } }[] }
  const content = choices?.[0]?.message?.content
  return typeof content === 'string' ? content : JSON.stringify(answer)
}

/** Shows how a job ended; the exit code says whether it was well. */
function showOutcome(
  session: Session,
  job: SubmittedJob,
  { outcome, webhook }: Ended,
  { json, out }: { readonly json: boolean; readonly out: string | undefined },
): number {
  if (out !== undefined && outcome.status === 'completed') {
    writeFileSync(out, `${JSON.stringify(outcome.answer, null, 2)}\n`, { mode: 0o600 })
    if (!json) session.terminal.err(`Saved in ${out}\n`)
  }
  if (webhook !== null && !json) session.terminal.err(`${webhookLine(webhook)}\n`)
  session.show(json, { ...idsOf(job), ...outcomeView(outcome), webhook }, () =>
    outcome.status === 'completed'
      ? `${printable(contentOf(outcome.answer))}\n`
      : `${job.jobId}  ${outcome.status}${outcome.code === null ? '' : `: ${outcome.code}`}\n`,
  )
  return outcome.status === 'completed' ? exitCodes.ok : exitCodes.failed
}

const submit = action({
  about: 'Encrypt a prompt for one of your nodes, follow the job and decrypt the answer here',
  operands: [
    { name: 'NODE_ID', about: 'The node’s id (node_…), as `nodes list` shows it' },
    { name: 'MODEL', about: 'A model that this node serves' },
    { name: 'PROMPT', about: 'The prompt. A dash (-) or nothing reads standard input.', optional: true, rest: true },
  ],
  options: {
    fingerprint: {
      kind: 'text',
      value: 'SHA256:…',
      about: 'The fingerprint that the node prints. It is needed once and then remembered.',
    },
    id: { kind: 'text', value: 'JOB_ID', about: 'Your own id for the job' },
    system: { kind: 'text', value: 'TEXT', about: 'The system message' },
    'max-tokens': {
      kind: 'number',
      value: 'N',
      min: 1,
      max: 1_048_576,
      about: 'Largest number of tokens in the answer',
    },
    webhook: { kind: 'text', value: 'URL', about: 'An https URL that the gateway notifies when the job ends' },
    'no-wait': { kind: 'flag', about: 'Do not wait for the answer. `jobs show` reads it later.' },
    ...outOption,
  },
  run: async ({ operands, options, json }, session) => {
    const [nodeId = '', modelId = '', ...words] = operands
    const client = clientOf(session)
    const fingerprint = await fingerprintOf(session, nodeId, options.fingerprint)
    const system = options.system === undefined ? [] : [{ role: 'system', content: options.system }]
    const messages = [...system, { role: 'user', content: await promptOf(session, words) }]
    const job = await explained(
      client.submit({
        nodeId,
        modelId,
        fingerprint,
        chat: { messages, ...(options['max-tokens'] === undefined ? {} : { max_tokens: options['max-tokens'] }) },
        ...(options.id === undefined ? {} : { jobId: options.id }),
        ...(options.webhook === undefined ? {} : { webhookUrl: options.webhook }),
      }),
    )
    const book = openJobBook(session.env)
    book.keep(job)
    book.pin(nodeId, fingerprint)
    if (!options['no-wait']) {
      return showOutcome(session, job, await follow(session, job, json), { json, out: options.out })
    }
    session.show(json, { ...idsOf(job), status: 'queued' }, () => `${job.jobId}\n`)
    return undefined
  },
})

const show = action({
  about: 'Show a job that you submitted from here, and decrypt its answer',
  operands: [{ name: 'JOB_ID', about: 'The id that `jobs submit` printed' }],
  options: { wait: { kind: 'flag', about: 'Wait until the job has ended' }, ...outOption },
  run: async ({ operands, options, json }, session) => {
    const [jobId = ''] = operands
    const job = jobFromHere(session, jobId)
    if (options.wait) return showOutcome(session, job, await follow(session, job, json), { json, out: options.out })
    const { status, webhook, outcome } = await explained(clientOf(session).read(job))
    if (outcome !== null) return showOutcome(session, job, { outcome, webhook }, { json, out: options.out })
    session.show(json, { ...idsOf(job), status, webhook }, () => `${jobId}  ${status}\n`)
    return undefined
  },
})

export const jobs: Verb = {
  name: 'jobs',
  about: 'Send private jobs, which are encrypted and decrypted on this computer',
  actions: { submit, show, export: exported },
}
