from django.db import transaction

from orders.models import Order
from orders.tasks import pack


@transaction.atomic
def place_order(item):
    """The task is sent when the order is committed: a worker would not find it earlier."""
    order = Order.objects.create(item=item)
    pack.delay_on_commit(order.id)
    return order
