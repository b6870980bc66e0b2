"""Articles: pages of prose with charts and tables of jobs in them."""

from hora.client.resource import Resource, reads, reads_list, reads_pages, returns
from hora.service import Service
from jobs.views.articles import ArticleLine, ArticleVersionView, ArticleView


class Articles(Resource):
    """`client.articles`."""

    create = reads(ArticleView, Service.create_article)
    list = reads_pages(ArticleLine, Service.articles)
    get = reads(ArticleView, Service.article)
    versions = reads_list(ArticleVersionView, Service.article_versions)
    change = reads(ArticleView, Service.change_article)
    remove = returns(Service.remove_article)
    export = returns(Service.export_article)
