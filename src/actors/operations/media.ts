import { Problem } from '../../errors.ts'
import { upstreamStripped } from '../../protocol/chat/upstream-request.ts'
import type { FormRules } from '../../protocol/media/form-filter.ts'
import type { Operation, SentForm } from './operation.ts'
import { foreignKeyProblem } from './request-body.ts'

const nothing = () => 0

/** What sound and pictures have in common: they stay on one's own nodes, and their answers are passed on as they come. */
export const media = {
  byAgents: false,
  ownOnly: true,
  passes: true,
  envelope: 'openai',
  generates: false,
  tokensLeast: nothing,
  prompt: () => null,
  // An answer that is passed on is not read.
  readWhole: () => null,
  writeWhole: () => '',
} as const satisfies Partial<Operation>

const noField = (name: string, why: string) =>
  new Problem('invalid_request', { param: name, detail: `${name}: ${why}` })

/** `refused`: fields of this form that cannot be honoured. */
function rulesOf(refused: readonly string[]): FormRules {
  return {
    dropped: upstreamStripped,
    check: (name) => {
      const foreign = foreignKeyProblem(name)
      if (foreign !== null) throw foreign
      if (name === 'svc') throw noField(name, 'the query of a form names its node (`?node_id=`)')
      if (name === 'models') throw noField(name, 'a form names one model')
      if (refused.includes(name)) throw noField(name, 'the answer comes whole')
    },
  }
}

/** Members of an operation whose request is a form, passed on as it comes. */
export const formOf = (path: string, refused: readonly string[] = []) =>
  ({
    form: rulesOf(refused),
    read: (_: string, sent?: SentForm): SentForm => {
      if (sent === undefined) throw new Problem('unsupported_media_type')
      return sent
    },
    estimate: () => ({ tokens: 0, textTokens: 0 }),
    upstream: (_: string, { form }: SentForm) => ({
      path,
      stream: false,
      form,
      forModel: () => '',
    }),
  }) as const
