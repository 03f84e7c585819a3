/** The documents of the checkout, in the order of the manual. A path that ends in `/` stands for all documents of that folder, by title. */
export const chapters = [
  { title: 'Begin', paths: ['README.md', 'CHANGELOG.md'] },
  {
    title: 'Use it',
    paths: ['docs/integrators.md', 'docs/mixtures.md', 'docs/private-jobs.md', 'docs/sealed.md', 'docs/trust.md'],
  },
  { title: 'Recipes', paths: ['docs/recipes/'] },
  { title: 'Connect a program', paths: ['docs/integrations/'] },
  {
    title: 'Operate it',
    paths: [
      'docs/operations/install.md',
      'docs/operations/nodes.md',
      'docs/operations/run.md',
      'docs/operations/back-up-and-upgrade.md',
      'docs/operations/observe.md',
      'docs/operations/secure.md',
      'docs/model-servers.md',
      'docs/money.md',
      'docs/scale.md',
      'docs/security.md',
    ],
  },
  {
    title: 'Reference',
    paths: ['docs/reference/', 'docs/compatibility.md', 'docs/specification.md', 'docs/protocol.md'],
  },
  { title: 'How it is made', paths: ['docs/architecture.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docs/decisions/'] },
] as const satisfies readonly Chapter[]

export interface Chapter {
  readonly title: string
  readonly paths: readonly string[]
}

/** Where the gateway serves a document: `docs/reference/settings.md` at `/docs/reference/settings`. */
export const addressOf = (path: string) => `/docs/${nameOf(path)}`

/** The document's name below `/docs/`; those of the root folder have a folder, since one of them is called as one of docs. */
export const nameOf = (path: string) => {
  const name = path.replace(/\.md$/, '').toLowerCase()
  return name.startsWith('docs/') ? name.slice('docs/'.length) : `project/${name}`
}
